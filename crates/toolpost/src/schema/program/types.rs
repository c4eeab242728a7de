//! JSON types as a bit set.

use serde_json::{Number, Value};

/// A set of JSON types. Numbers are split into integers and fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TypeSet(u8);

impl TypeSet {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(1 << 1);
    pub(crate) const FRACTION: Self = Self(1 << 2);
    pub(crate) const INTEGER: Self = Self(1 << 3);
    pub(crate) const STRING: Self = Self(1 << 4);
    pub(crate) const ARRAY: Self = Self(1 << 5);
    pub(crate) const OBJECT: Self = Self(1 << 6);
    pub(crate) const NUMBER: Self = Self(Self::FRACTION.0 | Self::INTEGER.0);
    pub(crate) const ANY: Self = Self(0x7f);

    /// Returns the set for a name of the `type` keyword; empty for an unknown name.
    pub(crate) fn from_name(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "number" => Self::NUMBER,
            "integer" => Self::INTEGER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::NONE,
        }
    }

    /// Returns the names of the types, for messages.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let number = if self.contains(Self::NUMBER) { "number" } else { "integer" };
        [
            (Self::ARRAY, "array"),
            (Self::BOOLEAN, "boolean"),
            (Self::NULL, "null"),
            (Self::NUMBER, number),
            (Self::OBJECT, "object"),
            (Self::STRING, "string"),
        ]
        .into_iter()
        .filter(move |(types, _)| self.overlaps(*types))
        .map(|(_, name)| name)
    }

    /// Returns the type of a value.
    #[inline]
    pub(crate) fn of_value(value: &Value, integers: IntegerRule) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => Self::of_number(number, integers),
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    #[inline]
    fn of_number(number: &Number, integers: IntegerRule) -> Self {
        if !number.is_f64() {
            return Self::INTEGER;
        }
        let found = number.as_f64().unwrap_or(f64::NAN);
        let is_integer = match integers {
            IntegerRule::ByValue => found.fract() == 0.0,
            IntegerRule::ByNotation => found.abs() >= INTEGER_LIMIT,
        };
        if is_integer { Self::INTEGER } else { Self::FRACTION }
    }

    #[inline]
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all types of the other set are in this one.
    pub(crate) fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Magnitude from which the parser can store an integer as a float.
const INTEGER_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Which numbers count as integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntegerRule {
    /// `1.0` is an integer (all drafts except draft 4).
    ByValue,
    /// `1.0` is not an integer (draft 4). Integers that are too large to store as such still are.
    ByNotation,
}
