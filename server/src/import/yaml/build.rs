//! From the parser's events to trees, within what a configuration may reasonably hold.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::super::ImportError;
use super::super::statement::Place;
use super::{join, words};

/// A value with all that it holds. What an anchor names stands in several places and is kept once.
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) line: usize,
    /// Levels below this one, and this one.
    depth: usize,
    /// Nodes below this one, and this one; those of anchors counted at each of their places.
    size: usize,
}

pub(super) enum Kind {
    Scalar(String),
    List(Vec<Rc<Node>>),
    Map(Vec<(String, Rc<Node>)>),
}

/// Levels of nesting; the original's parser takes 50.
const DEEPEST: usize = 50;
/// Nodes of a file.
const MOST: usize = 100_000;
const TOO_MUCH: &str = "holds too much, or is nested too deep";

/// The roots of all documents.
pub(super) fn documents(file: &Rc<str>, text: &str) -> Result<Vec<Rc<Node>>, ImportError> {
    let mut builder =
        Builder { file, open: Vec::new(), anchors: HashMap::new(), roots: Vec::new(), nodes: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| builder.scan_error(&error))?;
        builder.event(event, span.start.line())?;
    }
    Ok(builder.roots)
}

struct Builder<'a> {
    file: &'a Rc<str>,
    /// From the outermost to the innermost.
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    roots: Vec<Rc<Node>>,
    nodes: usize,
}

/// A list or map whose end has not come yet.
struct Open {
    anchor: usize,
    line: usize,
    items: Items,
}

enum Items {
    List(Vec<Rc<Node>>),
    Map { pairs: Vec<(String, Rc<Node>)>, merged: Vec<Rc<Node>>, keys: BTreeSet<String>, key: Option<String> },
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, line: usize) -> Result<(), ImportError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let text = self.scalar(&text, plain, tag.as_deref(), line)?;
                self.add(Kind::Scalar(text), anchor, line)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Items::List(Vec::new()), anchor, tag.as_deref(), line)
            }
            Event::MappingStart(anchor, tag) => self.begin(Items::map(), anchor, tag.as_deref(), line),
            Event::SequenceEnd | Event::MappingEnd => self.end(line),
            Event::Alias(anchor) => self.alias(anchor, line),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    /// Keys stand as they are written.
    fn scalar(&self, text: &str, plain: bool, tag: Option<&Tag>, line: usize) -> Result<String, ImportError> {
        let typed = match tag.map(|tag| (tag.is_yaml_core_schema(), &*tag.suffix)) {
            None => plain,
            Some((true, "str")) => false,
            Some((true, "int" | "float" | "bool" | "null")) => true,
            Some(_) => return Err(self.wrong(line, "has a tag that Spring does not read")),
        };
        Ok(if typed && !self.expects_key() { words::plain(text) } else { text.to_owned() })
    }

    fn begin(
        &mut self,
        items: Items,
        anchor: usize,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<(), ImportError> {
        let name = if matches!(items, Items::Map { .. }) { "map" } else { "seq" };
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema() || tag.suffix != name) {
            return Err(self.wrong(line, "has a tag that Spring does not read"));
        }
        if self.expects_key() {
            return Err(self.wrong(line, "a name must be one word, not a list or map"));
        }
        if self.open.len() >= DEEPEST {
            return Err(self.wrong(line, "is nested too deep"));
        }
        self.open.push(Open { anchor, line, items });
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), ImportError> {
        let Some(Open { anchor, line, items }) = self.open.pop() else {
            return Err(self.wrong(line, "ends what did not begin"));
        };
        let kind = match items {
            Items::List(items) => Kind::List(items),
            Items::Map { pairs, merged, keys, .. } => {
                self.nodes += merged.iter().map(|node| node.size).sum::<usize>();
                if self.nodes > MOST {
                    return Err(self.wrong(line, TOO_MUCH));
                }
                Kind::Map(with_merged(pairs, &merged, keys))
            }
        };
        self.add(kind, anchor, line)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), ImportError> {
        let node = self.anchors.get(&anchor).cloned();
        let node = node.ok_or_else(|| self.wrong(line, "refers to what holds it"))?;
        self.place(node, line)
    }

    fn add(&mut self, kind: Kind, anchor: usize, line: usize) -> Result<(), ImportError> {
        let node = Rc::new(Node::new(kind, line));
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node, line)
    }

    /// Puts a finished node where it stands.
    fn place(&mut self, node: Rc<Node>, line: usize) -> Result<(), ImportError> {
        self.nodes += 1;
        if self.nodes > MOST || node.size > MOST || node.depth + self.open.len() > DEEPEST {
            return Err(self.wrong(line, TOO_MUCH));
        }
        let placed = match self.open.last_mut().map(|open| &mut open.items) {
            None => {
                self.roots.push(node);
                Ok(())
            }
            Some(Items::List(items)) => {
                items.push(node);
                Ok(())
            }
            Some(map) => map.take(node),
        };
        placed.map_err(|reason| self.wrong(line, reason))
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { items: Items::Map { key: None, .. }, .. }))
    }

    fn wrong(&self, line: usize, reason: &str) -> ImportError {
        ImportError::at(&Place::new(self.file, line), &self.path(), reason)
    }

    fn scan_error(&self, error: &ScanError) -> ImportError {
        self.wrong(error.marker().line(), error.info())
    }

    /// Name of what is being read.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match &open.items {
            Items::List(items) => format!("{path}[{}]", items.len()),
            Items::Map { key: Some(key), .. } => join(&path, key),
            Items::Map { key: None, .. } => path,
        })
    }
}

impl Items {
    fn map() -> Self {
        Self::Map { pairs: Vec::new(), merged: Vec::new(), keys: BTreeSet::new(), key: None }
    }

    /// A map's next key or value. After a refusal the name that is refused is the open one.
    fn take(&mut self, node: Rc<Node>) -> Result<(), &'static str> {
        let Self::Map { pairs, merged, keys, key } = self else {
            return Ok(());
        };
        let Some(name) = key.take() else {
            let Kind::Scalar(name) = &node.kind else {
                return Err("a name must be one word, not a list or map");
            };
            *key = Some(name.clone());
            return if keys.insert(name.clone()) { Ok(()) } else { Err("is said twice") };
        };
        if name != MERGE {
            pairs.push((name, node));
        } else if !node.merges(merged) {
            return Err("<< takes a map or a list of maps");
        }
        Ok(())
    }
}

/// Key of a map whose pairs are taken over.
const MERGE: &str = "<<";

/// A map's own pairs, then those of merged maps whose keys it does not have, the first of them before the next.
fn with_merged(
    mut pairs: Vec<(String, Rc<Node>)>,
    merged: &[Rc<Node>],
    mut keys: BTreeSet<String>,
) -> Vec<(String, Rc<Node>)> {
    for node in merged {
        let Kind::Map(others) = &node.kind else { continue };
        pairs.extend(others.iter().filter(|(key, _)| keys.insert(key.clone())).cloned());
    }
    pairs
}

impl Node {
    fn new(kind: Kind, line: usize) -> Self {
        let below: Box<dyn Iterator<Item = &Rc<Self>>> = match &kind {
            Kind::Scalar(_) => Box::new(std::iter::empty()),
            Kind::List(items) => Box::new(items.iter()),
            Kind::Map(pairs) => Box::new(pairs.iter().map(|(_, value)| value)),
        };
        let (depth, size) = below.fold((0, 1), |(depth, size): (usize, usize), node| {
            (depth.max(node.depth), size.saturating_add(node.size))
        });
        Self { kind, line, depth: depth + 1, size }
    }

    /// Adds the maps that it names, when it is one or a list of them.
    fn merges(self: &Rc<Self>, merged: &mut Vec<Rc<Self>>) -> bool {
        match &self.kind {
            Kind::Scalar(_) => false,
            Kind::Map(_) => {
                merged.push(self.clone());
                true
            }
            Kind::List(items) => {
                merged.extend(items.iter().cloned());
                items.iter().all(|item| matches!(item.kind, Kind::Map(_)))
            }
        }
    }
}
