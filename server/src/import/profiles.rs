//! Which documents apply: profiles and their expressions, by Spring's rules.

use super::ImportError;
use super::facts::{Facts, Value};
use super::placeholders::{Filled, fill};
use super::statement::{Document, Statement, shown};

/// Where a document says when it applies; the last is the way of Spring Boot before 2.4.
const CONDITIONS: [&str; 2] = ["spring.config.activate.onprofile", "spring.profiles"];
const PLATFORM: &str = "spring.config.activate.oncloudplatform";
/// What may not depend on what it decides.
const DECIDING: [&str; 3] = ["spring.profiles.active", "spring.profiles.include", "spring.profiles.default"];

/// Documents, those that apply apart from those that do not.
pub(super) struct Chosen {
    pub(super) facts: Facts,
    /// Statements that do not apply, and why.
    pub(super) unused: Vec<(Statement, String)>,
    /// Profiles that are active, in their order.
    pub(super) profiles: Vec<String>,
}

/// Chooses by the named profiles, or else by those that the files name.
pub(super) fn choose(documents: &[Document], named: &[String]) -> Result<Chosen, ImportError> {
    let always =
        documents.iter().filter(|document| document.condition().is_none() && !document.has(PLATFORM));
    let always = Facts::of(always.map(|document| &*document.statements));
    documents.iter().try_for_each(Document::check)?;
    // Groups count wherever they stand.
    let all = Facts::of(documents.iter().map(|document| &*document.statements));
    let profiles = active(&always, &all, named)?;
    let (mut used, mut unused) = (Vec::new(), Vec::new());
    for document in documents {
        match document.hindrance(&always, &profiles)? {
            None => used.push(&*document.statements),
            Some(reason) => {
                unused.extend(document.statements.iter().map(|one| (one.clone(), reason.clone())));
            }
        }
    }
    let profiles = profiles.into_iter().filter(|profile| profile != "default").collect();
    Ok(Chosen { facts: Facts::of(used), unused, profiles })
}

/// Active profiles with those that they bring along. Nothing active: `default`.
fn active(facts: &Facts, groups: &Facts, named: &[String]) -> Result<Vec<String>, ImportError> {
    let mut wanted = list(facts, "spring.profiles.include")?;
    wanted.extend(if named.is_empty() { list(facts, "spring.profiles.active")? } else { named.to_vec() });
    if wanted.is_empty() {
        wanted = list(facts, "spring.profiles.default")?;
    }
    if wanted.is_empty() {
        wanted.push("default".to_owned());
    }
    let mut found: Vec<String> = Vec::new();
    while let Some(profile) = (!wanted.is_empty()).then(|| wanted.remove(0)) {
        if !found.contains(&profile) {
            let group = list(groups, &format!("spring.profiles.group[{profile}]"))?;
            wanted.splice(0..0, group);
            found.push(profile);
        }
    }
    Ok(found)
}

fn list(facts: &Facts, name: &str) -> Result<Vec<String>, ImportError> {
    let Some(said) = facts.said(name) else { return Ok(Vec::new()) };
    match facts.value_of(said)? {
        Value::Text(text) => Ok(items(&text)),
        Value::Missing(missing) => Err(unknown(said.first(), &missing)),
    }
}

fn unknown(statement: &Statement, missing: &str) -> ImportError {
    let reason = format!("holds ${{{missing}}}, which no file says; name the profiles with --import-profile");
    ImportError::at(&statement.place, &statement.shown(), reason)
}

/// Items between commas.
pub(super) fn items(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

impl Document {
    fn all(&self, name: &str) -> impl Iterator<Item = &Statement> {
        self.statements.iter().filter(move |one| one.name.canonical == name)
    }

    fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// The first statement about its profiles.
    fn condition(&self) -> Option<&Statement> {
        CONDITIONS.iter().find_map(|name| self.all(name).next())
    }

    fn check(&self) -> Result<(), ImportError> {
        let deciding = DECIDING.iter().find_map(|name| self.all(name).next());
        match deciding.filter(|_| self.condition().is_some()) {
            None => Ok(()),
            Some(said) => {
                Err(ImportError::at(&said.place, &said.shown(), "may not stand in the document of a profile"))
            }
        }
    }

    /// Why it does not apply.
    fn hindrance(&self, facts: &Facts, profiles: &[String]) -> Result<Option<String>, ImportError> {
        if self.has(PLATFORM) {
            return Ok(Some(
                "its document applies on one cloud platform only, which no file can tell".into(),
            ));
        }
        let Some(condition) = self.condition() else { return Ok(None) };
        let wanted = self.wanted(condition, facts)?;
        let holds: Result<Vec<_>, _> = items(&wanted).iter().map(|item| expression(item, profiles)).collect();
        let holds = holds.map_err(|reason| ImportError::at(&condition.place, &condition.shown(), reason))?;
        let applies = holds.is_empty() || holds.contains(&true);
        let reason =
            || format!("its document applies to profile {:?} only, which is not active", shown(&wanted));
        Ok((!applies).then(reason))
    }

    /// The condition with its placeholders, which the document itself or others fill in.
    fn wanted(&self, condition: &Statement, facts: &Facts) -> Result<String, ImportError> {
        let own = Facts::of([&*self.statements]).value(&condition.name.canonical)?;
        if let Some(Value::Text(text)) = own {
            return Ok(text);
        }
        match fill(facts, condition)? {
            Filled::Text(text) => Ok(text),
            Filled::Missing(missing) => Err(unknown(condition, &missing)),
        }
    }
}

/// `a`, `!a`, `a & (b | !c)`; `&` and `|` side by side need parentheses.
fn expression(text: &str, profiles: &[String]) -> Result<bool, &'static str> {
    let mut reader = Reader { rest: text, profiles, depth: 0 };
    let holds = reader.operands()?;
    if reader.rest.trim().is_empty() { Ok(holds) } else { Err(MALFORMED) }
}

const MALFORMED: &str = "is no expression of profiles";
const DEEPEST: usize = 50;

struct Reader<'a> {
    rest: &'a str,
    profiles: &'a [String],
    depth: usize,
}

impl Reader<'_> {
    fn operands(&mut self) -> Result<bool, &'static str> {
        let mut holds = self.operand()?;
        let mut before = None;
        while let Some(sign) = self.sign(&['&', '|']) {
            if before.replace(sign).is_some_and(|before| before != sign) {
                return Err("mixes & and | without parentheses");
            }
            let next = self.operand()?;
            holds = if sign == '&' { holds && next } else { holds || next };
        }
        Ok(holds)
    }

    fn operand(&mut self) -> Result<bool, &'static str> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("is nested too deep");
        }
        let holds = match self.sign(&['!', '(']) {
            Some('!') => self.operand().map(|holds| !holds),
            Some(_) => self.group(),
            None => self.name(),
        };
        self.depth -= 1;
        holds
    }

    fn group(&mut self) -> Result<bool, &'static str> {
        let holds = self.operands()?;
        self.sign(&[')']).map(|_| holds).ok_or("lacks a parenthesis")
    }

    fn name(&mut self) -> Result<bool, &'static str> {
        let end = self.rest.find(['&', '|', '!', '(', ')']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let name = name.trim();
        if name.is_empty() { Err(MALFORMED) } else { Ok(self.profiles.iter().any(|profile| profile == name)) }
    }

    fn sign(&mut self, signs: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let sign = rest.chars().next().filter(|sign| signs.contains(sign))?;
        self.rest = &rest[1..];
        Some(sign)
    }
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    fn chosen(text: &str, named: &[&str]) -> Result<Chosen, String> {
        let documents = yaml::read(&"f".into(), text.as_bytes()).unwrap();
        let named: Vec<_> = named.iter().map(|name| (*name).to_owned()).collect();
        choose(&documents, &named).map_err(|error| error.to_string())
    }

    fn value(text: &str, named: &[&str]) -> String {
        match chosen(text, named).unwrap().facts.value("a").unwrap() {
            Some(Value::Text(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn expressions_hold_as_in_spring() {
        let profiles = ["prod".to_owned(), "eu-1".to_owned()];
        let table = [
            ("prod", true),
            ("Prod", false),
            ("!prod", false),
            ("!dev", true),
            ("!!prod", true),
            ("prod & eu-1", true),
            ("prod&dev", false),
            ("dev | eu-1", true),
            ("(dev | prod) & !us", true),
            ("!(dev | prod)", false),
            ("prod & eu-1 & !us", true),
        ];
        for (text, holds) in table {
            assert_eq!(expression(text, &profiles), Ok(holds), "{text}");
        }
        for text in ["", "()", "a &", "& a", "a b)", "(a", "a & b | c", "a !b", "!", &"!".repeat(100)] {
            assert!(expression(text, &profiles).is_err(), "{text}");
        }
    }

    #[test]
    fn documents_of_profiles_apply_when_they_are_active() {
        let both = "a: 1\n---\nspring.config.activate.on-profile: x\na: 2\n---\nspring.profiles: y, z\na: 3";
        for (named, expected) in [(vec![], "1"), (vec!["x"], "2"), (vec!["y"], "3"), (vec!["z", "x"], "3")] {
            assert_eq!(value(both, &named), expected, "{named:?}");
        }
        for (head, expected) in [
            ("spring.profiles.active: x", "2"),
            ("spring.profiles.active: [q, x]", "2"),
            ("spring.profiles.active: ${P:x}", "2"),
            ("spring: {profiles: {include: x, active: y}}", "3"),
            ("spring: {profiles: {active: g, group: {g: 'h', h: [x]}}}", "2"),
            ("spring.profiles.default: x", "2"),
            ("spring.profiles.active: ''", "1"),
            ("spring.profiles.active: g\n---\n{spring.profiles: q, spring.profiles.group.g: x}\n---", "2"),
        ] {
            assert_eq!(value(&format!("{head}\n{both}"), &[]), expected, "{head}");
        }
        assert_eq!(value(&format!("spring.profiles.active: y\n{both}"), &["x"]), "2");
    }

    #[test]
    fn later_documents_win_even_over_those_of_profiles() {
        let text = "a: 1\n---\nspring.config.activate.on-profile: x\na: 2\n---\na: 3";
        assert_eq!(value(text, &["x"]), "3");
        let text = "a: 1\n---\nspring.config.activate.on-profile: ''\na: 2";
        assert_eq!(value(text, &[]), "2");
        let text = "a: 1\n---\nspring.config.activate.on-profile: default\na: 2";
        assert_eq!((value(text, &[]), value(text, &["x"])), ("2".into(), "1".into()));
    }

    #[test]
    fn lists_are_replaced_whole() {
        assert_eq!(value("a: [1, 2, 3]\n---\na: [4]", &[]), "4");
        assert_eq!(value("a: [1, 2]\n---\na: 5", &[]), "5");
        assert_eq!(value("a: 5\n---\na: [1, 2]", &[]), "1,2");
    }

    #[test]
    fn what_does_not_apply_is_kept_with_the_reason() {
        let text = "a: 1\n---\nspring.config.activate.on-profile: x\nb: 2\n---\n\
                    spring.config.activate.on-cloud-platform: kubernetes\nc: 3";
        let unused = chosen(text, &[]).unwrap().unused;
        let told: Vec<_> = unused.iter().map(|(one, reason)| format!("{} {reason}", one.shown())).collect();
        assert_eq!(told.len(), 4);
        assert!(told[1].starts_with("b ") && told[1].contains("\"x\""), "{told:?}");
        assert!(told[3].starts_with("c ") && told[3].contains("platform"), "{told:?}");
    }

    #[test]
    fn what_spring_refuses_is_refused() {
        for (text, told) in [
            ("spring: {profiles: {active: x}, config.activate.on-profile: y}", "document of a profile"),
            ("spring.profiles.active: ${P}", "f:1: spring.profiles.active: holds ${P}"),
            ("spring.config.activate.on-profile: a & b | c", "parentheses"),
            ("spring.config.activate.on-profile: ${Q}", "${Q}"),
            ("spring.profiles.active[1]: x", "no item 0"),
        ] {
            let error = chosen(text, &[]).err().unwrap();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(chosen("spring.profiles.active: ${P}", &["x"]).is_ok());
    }
}
