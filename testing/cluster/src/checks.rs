//! Comparing what was seen with what is right.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::rest::Answer;

/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// Both must be equal.
///
/// # Errors
/// What was expected and seen.
#[expect(clippy::needless_pass_by_value, reason = "the expected value is written where it is compared")]
pub fn same<T: PartialEq + Debug>(what: impl Display, seen: T, expected: T) -> anyhow::Result<()> {
    ensure!(seen == expected, "{what}: expected {expected:?}, saw {seen:?}");
    Ok(())
}

/// As [`same`] for JSON, printed as such.
///
/// # Errors
/// As [`same`].
#[expect(clippy::needless_pass_by_value, reason = "the expected value is written where it is compared")]
pub fn json(what: impl Display, seen: &Value, expected: Value) -> anyhow::Result<()> {
    ensure!(*seen == expected, "{what}: expected {expected}, saw {seen}");
    Ok(())
}

/// The answer must have this code.
///
/// # Errors
/// As [`same`], with the answer's text.
pub fn code(what: impl Display, answer: &Answer, expected: u16) -> anyhow::Result<()> {
    ensure!(
        answer.status == expected,
        "{what}: expected {expected}, saw {} {}",
        answer.status,
        answer.start()
    );
    Ok(())
}

/// The answer must have this code, no body, and no type.
///
/// # Errors
/// As [`code`].
pub fn quiet(what: impl Display, answer: &Answer, expected: u16) -> anyhow::Result<()> {
    code(&what, answer, expected)?;
    ensure!(answer.body.is_empty(), "{what}: expected no body, saw {}", answer.start());
    let kind = answer.header("content-type");
    ensure!(kind.is_none(), "{what}: expected no type, saw {kind:?}");
    Ok(())
}

/// The answer must be a 400 whose text names this field.
///
/// # Errors
/// As [`code`].
pub fn refused(what: impl Display, answer: &Answer, field: &str) -> anyhow::Result<()> {
    code(&what, answer, 400)?;
    ensure!(answer.text().contains(field), "{what}: expected {field} to be named, saw {}", answer.start());
    Ok(())
}

/// Waits until the condition holds; how long that took.
///
/// # Errors
/// It did not within that time.
pub async fn eventually<F>(
    what: impl Display,
    within: Duration,
    mut condition: impl FnMut() -> F,
) -> anyhow::Result<Duration>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let begun = Instant::now();
    while !condition().await? {
        if begun.elapsed() > within {
            bail!("{what}: not within {} s", within.as_secs());
        }
        sleep(GLANCE).await;
    }
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_expected_and_seen_is_told() {
        assert_eq!(same("n", 1, 2).unwrap_err().to_string(), "n: expected 2, saw 1");
        let told = json("port", &serde_json::json!([1]), serde_json::json!({"$": 1})).unwrap_err();
        assert_eq!(told.to_string(), r#"port: expected {"$":1}, saw [1]"#);
    }

    #[test]
    fn a_quiet_answer_has_neither_body_nor_type() {
        let answer = |status, body: &'static str, kind: Option<&str>| {
            let kind = kind.map(|kind| ("content-type".to_owned(), kind.to_owned()));
            Answer { status, headers: kind.into_iter().collect(), body: body.into() }
        };
        assert!(quiet("beat", &answer(404, "", None), 404).is_ok());
        for (answer, told) in [
            (answer(200, "", None), "beat: expected 404, saw 200 "),
            (answer(404, "{}", None), "beat: expected no body, saw {}"),
            (answer(404, "", Some("a/b")), "beat: expected no type, saw Some(\"a/b\")"),
        ] {
            assert_eq!(quiet("beat", &answer, 404).unwrap_err().to_string(), told);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_holds_is_given_up() {
        let never = eventually("it", Duration::from_secs(2), || async { Ok(false) }).await;
        assert_eq!(never.unwrap_err().to_string(), "it: not within 2 s");
    }
}
