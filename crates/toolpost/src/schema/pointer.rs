//! The place of a repair, kept without an allocation where it is short.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::short::{copy, has_either};

/// A JSON Pointer that is read like a `str`.
///
/// Values are repaired in great numbers and most places have short names, so a pointer of up to
/// 22 bytes is kept in place.
///
/// # Examples
///
/// ```
/// let pointer = toolpost::Pointer::from("/items/0");
/// assert_eq!(pointer, "/items/0");
/// assert!(pointer.starts_with("/items"));
/// ```
#[derive(Clone)]
pub struct Pointer(Text);

const NEAR: usize = 22;

#[derive(Clone)]
enum Text {
    /// The text ends where the bytes do, because a path is known from its end.
    Near {
        start: u8,
        bytes: [u8; NEAR],
    },
    Far(Box<str>),
}

impl Pointer {
    /// The pointer as text; empty for the value itself.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Near { start, bytes } => std::str::from_utf8(&bytes[usize::from(*start)..])
                .expect("it was made of whole texts"),
            Text::Far(text) => text,
        }
    }

    /// Becomes what `write` writes, from back to front.
    ///
    /// It is written where it stays: writing it aside and moving it there took some four
    /// nanoseconds more for each.
    #[inline]
    pub(super) fn write(&mut self, write: impl Fn(&mut Backwards<'_>)) {
        if let Text::Far(_) = self.0 {
            *self = Self::default();
        }
        if let Text::Near { start, bytes } = &mut self.0 {
            let mut near = Backwards { bytes, free: NEAR, missing: 0 };
            write(&mut near);
            let missing = near.missing;
            *start = near.free as u8;
            if missing > 0 {
                self.write_far(NEAR + missing, write);
            }
        }
    }

    #[cold]
    fn write_far(&mut self, length: usize, write: impl Fn(&mut Backwards<'_>)) {
        let mut bytes = vec![0; length];
        write(&mut Backwards { bytes: &mut bytes, free: length, missing: 0 });
        let text = String::from_utf8(bytes).expect("it was made of whole texts");
        self.0 = Text::Far(text.into_boxed_str());
    }
}

/// Writes bytes from back to front, as many as there is room for, and counts the others.
pub(super) struct Backwards<'b> {
    bytes: &'b mut [u8],
    /// The bytes before this one are not written yet.
    free: usize,
    missing: usize,
}

impl Backwards<'_> {
    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        if self.free == 0 {
            self.missing += 1;
            return;
        }
        self.free -= 1;
        self.bytes[self.free] = byte;
    }

    /// Writes a name, with `~` and `/` escaped.
    #[inline]
    pub(super) fn push_name(&mut self, name: &str) {
        let name = name.as_bytes();
        match self.free.checked_sub(name.len()) {
            Some(start) if !has_either(name, b'~', b'/') => {
                copy(&mut self.bytes[start..self.free], name);
                self.free = start;
            }
            _ => name.iter().rev().for_each(|byte| self.push_escaped(*byte)),
        }
    }

    fn push_escaped(&mut self, byte: u8) {
        let escape = match byte {
            b'~' => b'0',
            b'/' => b'1',
            _ => return self.push(byte),
        };
        self.push(escape);
        self.push(b'~');
    }
}

impl Default for Pointer {
    fn default() -> Self {
        Self(Text::Near { start: NEAR as u8, bytes: [0; NEAR] })
    }
}

impl From<&str> for Pointer {
    fn from(text: &str) -> Self {
        let mut pointer = Self::default();
        pointer.write(|to| text.bytes().rev().for_each(|byte| to.push(byte)));
        pointer
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        match pointer.0 {
            Text::Near { .. } => pointer.as_str().to_owned(),
            Text::Far(text) => text.into_string(),
        }
    }
}

impl std::ops::Deref for Pointer {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Pointer {
    fn as_ref(&self) -> &str {
        self
    }
}

impl PartialEq for Pointer {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pointer {}

impl PartialEq<str> for Pointer {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Pointer {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self::from(&*text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_its_text_at_every_length() {
        for length in [0, 1, NEAR - 1, NEAR, NEAR + 1, 1000] {
            let text = "/".repeat(length);
            let pointer = Pointer::from(text.as_str());
            assert_eq!(pointer, text.as_str());
            assert_eq!(pointer, pointer.clone());
            assert_ne!(pointer, Pointer::from("/other"));
            let json = serde_json::to_string(&pointer).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Pointer>(&json).unwrap(), pointer);
            assert_eq!(String::from(pointer), text);
        }
    }

    #[test]
    fn a_pointer_takes_no_more_room_than_a_string() {
        assert_eq!(size_of::<Pointer>(), size_of::<String>());
    }
}
