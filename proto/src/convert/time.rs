//! Timestamps and durations.

use std::time::Duration;

use heureka_model::{Invalid, Problem, Wall};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MILLI: u32 = 1_000_000;
/// Last second of the year 9999, the end of a well-formed timestamp.
const MAX_TIMESTAMP: i64 = 253_402_300_799;
/// The same in milliseconds, with the last of that second.
const MAX_WALL: u64 = MAX_TIMESTAMP as u64 * 1000 + 999;
/// Ten thousand years, the end of a well-formed duration.
const MAX_DURATION: i64 = 315_576_000_000;

/// A point on the wall clock as the wire has it; one after the year 9999 reads as that year's last millisecond,
/// since clients refuse a whole message for one malformed timestamp.
#[must_use]
pub fn timestamp(wall: Wall) -> prost_types::Timestamp {
    let millis = wall.0.min(MAX_WALL);
    let nanos = (millis % 1000) as i32 * NANOS_PER_MILLI as i32;
    prost_types::Timestamp { seconds: (millis / 1000) as i64, nanos }
}

/// A point on the wall clock; parts of a millisecond are dropped.
///
/// # Errors
/// Before the epoch, after the year 9999, or malformed.
pub fn wall(field: &str, timestamp: &prost_types::Timestamp) -> Result<Wall, Invalid> {
    let seconds = within(field, timestamp.seconds, MAX_TIMESTAMP)?;
    let nanos = within(field, i64::from(timestamp.nanos), NANOS_PER_SECOND - 1)?;
    Ok(Wall(seconds * 1000 + nanos / u64::from(NANOS_PER_MILLI)))
}

/// A duration as the wire has it; one beyond ten thousand years reads as these.
#[must_use]
pub fn wire_duration(duration: Duration) -> prost_types::Duration {
    let duration = duration.min(Duration::from_secs(MAX_DURATION as u64));
    prost_types::Duration { seconds: duration.as_secs() as i64, nanos: duration.subsec_nanos() as i32 }
}

/// A duration.
///
/// # Errors
/// Negative, beyond ten thousand years, or malformed.
pub fn duration(field: &str, duration: &prost_types::Duration) -> Result<Duration, Invalid> {
    let seconds = within(field, duration.seconds, MAX_DURATION)?;
    let nanos = within(field, i64::from(duration.nanos), NANOS_PER_SECOND - 1)?;
    Ok(Duration::from_secs(seconds) + Duration::from_nanos(nanos))
}

fn within(field: &str, value: i64, max: i64) -> Result<u64, Invalid> {
    match u64::try_from(value) {
        Ok(number) if value <= max => Ok(number),
        _ => Err(Invalid::new(field, Problem::OutOfRange { value, min: 0, max })),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn negative_and_malformed_times_name_their_field() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, 0), (i64::MAX, 0)] {
            let time = prost_types::Timestamp { seconds, nanos };
            assert_eq!(wall("at", &time).unwrap_err().field, "at");
            let time = prost_types::Duration { seconds, nanos };
            assert_eq!(duration("for", &time).unwrap_err().field, "for");
        }
    }

    #[test]
    fn times_round_trip_to_the_millisecond() {
        for millis in [0, 1, 999, 1000, 1_764_000_000_123] {
            assert_eq!(wall("at", &timestamp(Wall(millis))), Ok(Wall(millis)));
            let length = Duration::from_millis(millis);
            assert_eq!(duration("for", &wire_duration(length)), Ok(length));
        }
    }

    #[test]
    fn times_end_with_the_year_9999() {
        let last = prost_types::Timestamp { seconds: 253_402_300_799, nanos: 999_000_000 };
        for beyond in [253_402_300_799_999, 253_402_300_800_000, (1 << 63) - 2, u64::MAX] {
            assert_eq!(timestamp(Wall(beyond)), last);
        }
        assert_eq!(timestamp(Wall(253_402_300_799_998)).nanos, 998_000_000);
    }

    proptest! {
        #[test]
        fn every_converted_time_is_well_formed(millis in any::<u64>(), shift in 0..64_u32, nanos in 0..1_000_000_000_u32) {
            let millis = millis >> shift;
            let time = timestamp(Wall(millis));
            prop_assert!((0..=253_402_300_799).contains(&time.seconds) && (0..=999_999_999).contains(&time.nanos));
            let length = wire_duration(Duration::new(millis, nanos));
            prop_assert!((0..=315_576_000_000).contains(&length.seconds));
            prop_assert!((0..=999_999_999).contains(&length.nanos));
            prop_assert!(wall("at", &time).is_ok() && duration("for", &length).is_ok());
        }
    }
}
