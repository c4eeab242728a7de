//! Nothing is written that would be refused when it is read.

use super::{EditError, Place, join};
use crate::config::{Config, ConfigError, Problem};

/// Whether an entry can be read once it is changed, and nothing else is wrong that was not wrong before.
pub(super) fn holds(place: &Place<'_>, before: &str, after: &str) -> Result<(), EditError> {
    let (old, entry) = (problems(place, before), join(place.part.key(), place.name));
    let is_of_entry =
        |key: &str| key.strip_prefix(&entry).is_some_and(|rest| ["", "."].contains(&first(rest)));
    let is_known =
        |new: &Problem| old.iter().any(|old| (&old.key, &old.message) == (&new.key, &new.message));
    let mut found = problems(place, after);
    found.retain(|new| is_of_entry(&new.key) || !is_known(new));
    // The places are those of a text that nobody has seen.
    found.iter_mut().for_each(|problem| problem.place = None);
    if found.is_empty() { Ok(()) } else { Err(EditError::Refused(ConfigError::new(found))) }
}

/// What is wrong with a text. A variable that is not set now may be set where the gateway runs.
fn problems(place: &Place<'_>, text: &str) -> Vec<Problem> {
    let read = Config::read(place.file, text, &|name| std::env::var(name).ok());
    read.map_or_else(ConfigError::into_problems, |(_, problems)| problems)
}

fn first(text: &str) -> &str {
    text.get(..1).unwrap_or(text)
}
