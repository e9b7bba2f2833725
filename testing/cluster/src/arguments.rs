//! The command line.

use std::path::PathBuf;

/// How the program is called.
pub(crate) const USAGE: &str = "usage: heureka-cluster --server FILE [--count N] [--recording FILE] COMMAND
  --server FILE     the heureka binary; every command starts its own servers
  --count N         how many kills or rounds; 1000 kills, 20 rounds when not given
  --recording FILE  where to leave what the watchers were told
  smoke             three servers, clients and watchers; one is killed, one stops for 20 s, one is cut off
  kills             a server is killed at the moment when it has acknowledged a write; the others must have it
  rolling           every server is drained and started again, round after round, under load";

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) server: PathBuf,
    pub(crate) count: Option<usize>,
    pub(crate) recording: Option<PathBuf>,
    pub(crate) command: Command,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Smoke,
    Kills,
    Rolling,
}

impl Arguments {
    /// Understands a command line, the program's own name left out.
    ///
    /// # Errors
    /// The words that name what is wrong.
    pub(crate) fn read(line: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let (mut server, mut count, mut recording, mut command) = (None, None, None, None);
        let mut line = line.into_iter();
        while let Some(word) = line.next() {
            let mut value = || line.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--server" => server = Some(value()?.into()),
                "--count" => count = Some(number(&value()?)?),
                "--recording" => recording = Some(value()?.into()),
                _ if command.is_none() => command = Some(Command::read(&word)?),
                _ => return Err(format!("{word}: one command at a time")),
            }
        }
        Ok(Self {
            server: server.ok_or("--server is missing")?,
            count,
            recording,
            command: command.ok_or("no command")?,
        })
    }
}

impl Command {
    fn read(word: &str) -> Result<Self, String> {
        match word {
            "smoke" => Ok(Self::Smoke),
            "kills" => Ok(Self::Kills),
            "rolling" => Ok(Self::Rolling),
            _ => Err(format!("{word}: neither an option nor a command")),
        }
    }
}

fn number(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|number| *number > 0);
    parsed.ok_or_else(|| format!("--count: {text} is no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, String> {
        Arguments::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_command_has_its_options_before_or_behind_it() {
        let arguments = read("kills --count 7 --server target/heureka").unwrap();
        assert_eq!((arguments.command, arguments.count), (Command::Kills, Some(7)));
        assert_eq!(arguments, read("--server target/heureka --count 7 kills").unwrap());
        assert_eq!(read("--server x smoke --recording r").unwrap().recording, Some("r".into()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, told) in [
            ("smoke", "--server is missing"),
            ("--server x", "no command"),
            ("--server", "--server needs a value"),
            ("--server x smoke kills", "kills: one command at a time"),
            ("--server x burn", "burn: neither an option nor a command"),
            ("--server x kills --count 0", "--count: 0 is no number above 0"),
        ] {
            assert_eq!(read(line).unwrap_err(), told, "{line}");
        }
    }
}
