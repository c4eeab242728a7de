//! Translates JavaScript regular expressions to the syntax of the Rust engine.

use std::fmt::Write;

use super::pattern::unit_char;

/// Translates a pattern to the engine's syntax. Returns `None` if JavaScript would reject it.
pub(super) fn translate(source: &str) -> Option<String> {
    let units: Vec<char> = source.encode_utf16().map(unit_char).collect();
    let groups = count_groups(&units);
    let mut translator = RegexTranslator {
        units,
        position: 0,
        out: String::new(),
        groups,
        open_groups: 0,
        repeatable: false,
    };
    while let Some(unit) = translator.next_char() {
        translator.term(unit)?;
    }
    (translator.open_groups == 0).then_some(translator.out)
}

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str =
    r"\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

struct RegexTranslator {
    units: Vec<char>,
    position: usize,
    out: String,
    groups: GroupInfo,
    /// Number of unclosed groups.
    open_groups: usize,
    /// Whether a quantifier can follow.
    repeatable: bool,
}

/// Capture groups of the pattern, which determine whether `\1` and `\k` are back-references.
struct GroupInfo {
    count: usize,
    has_named: bool,
}

/// The meaning of an escape sequence.
enum RegexEscape {
    Char(char),
    /// A character class in brackets.
    Class(String),
}

impl RegexTranslator {
    fn peek(&self) -> Option<char> {
        self.units.get(self.position).copied()
    }

    fn next_char(&mut self) -> Option<char> {
        let unit = self.peek()?;
        self.position += 1;
        Some(unit)
    }

    fn next_if(&mut self, expected: &str) -> bool {
        let length = expected.chars().count();
        let found =
            self.units.iter().skip(self.position).take(length).copied().eq(expected.chars());
        if found {
            self.position += length;
        }
        found
    }

    fn term(&mut self, unit: char) -> Option<()> {
        match unit {
            '^' => self.assertion(r"\A"),
            '$' => self.assertion(r"\z"),
            '|' => self.assertion("|"),
            '.' => self.atom(r"[^\n\r\x{2028}\x{2029}]"),
            '(' => self.open_group()?,
            ')' => self.close_group()?,
            '[' => self.class()?,
            '*' | '+' | '?' => self.quantifier(&unit.to_string())?,
            '{' => match self.count_suffix() {
                Some(counted) if is_reversed_range(&counted) => return None,
                Some(counted) => self.quantifier(&counted)?,
                None => self.literal('{'),
            },
            '\\' => self.escape_term()?,
            plain => self.literal(plain),
        }
        Some(())
    }

    fn assertion(&mut self, text: &str) {
        self.out.push_str(text);
        self.repeatable = false;
    }

    fn atom(&mut self, text: &str) {
        self.out.push_str(text);
        self.repeatable = true;
    }

    fn literal(&mut self, unit: char) {
        push_char(&mut self.out, unit);
        self.repeatable = true;
    }

    fn open_group(&mut self) -> Option<()> {
        let opening = ["?:", "?=", "?!", "?<=", "?<!"].into_iter().find(|text| self.next_if(text));
        self.out.push('(');
        match opening {
            Some(text) => self.out.push_str(text),
            None if self.next_if("?<") => {
                let name = self.group_name()?;
                let _ = write!(self.out, "?<{name}>");
            }
            None if self.peek() == Some('?') => return None,
            None => {}
        }
        self.open_groups += 1;
        self.repeatable = false;
        Some(())
    }

    fn close_group(&mut self) -> Option<()> {
        self.open_groups = self.open_groups.checked_sub(1)?;
        self.atom(")");
        Some(())
    }

    fn group_name(&mut self) -> Option<String> {
        let end = self.units[self.position..].iter().position(|unit| *unit == '>')?;
        let name: String = self.units[self.position..self.position + end].iter().collect();
        self.position += end + 1;
        (!name.is_empty()).then_some(name)
    }

    fn quantifier(&mut self, text: &str) -> Option<()> {
        if !self.repeatable {
            return None;
        }
        self.out.push_str(text);
        if self.next_if("?") {
            self.out.push('?');
        }
        self.repeatable = false;
        Some(())
    }

    /// Parses the rest of `{n}`, `{n,}` or `{n,m}`; otherwise the brace is a literal.
    fn count_suffix(&mut self) -> Option<String> {
        let rest = self.units[self.position..].iter();
        let inside: String =
            rest.take_while(|unit| unit.is_ascii_digit() || **unit == ',').collect();
        let end = inside.len();
        let (low, high) = inside.split_once(',').unwrap_or((&inside, ""));
        if low.is_empty() || high.contains(',') || self.units.get(self.position + end) != Some(&'}')
        {
            return None;
        }
        self.position += end + 1;
        Some(format!("{{{inside}}}"))
    }

    fn escape_term(&mut self) -> Option<()> {
        match self.peek()? {
            'b' => self.boundary("(?:(?<=[W])(?![W])|(?<![W])(?=[W]))"),
            'B' => self.boundary("(?:(?<=[W])(?=[W])|(?<![W])(?![W]))"),
            'k' if self.groups.has_named => {
                self.position += 1;
                if !self.next_if("<") {
                    return None;
                }
                let name = self.group_name()?;
                self.atom(&format!(r"\k<{name}>"));
            }
            digit @ '1'..='9' => self.back_reference(digit),
            _ => match self.escape()? {
                RegexEscape::Char(unit) => self.literal(unit),
                RegexEscape::Class(class) => self.atom(&class),
            },
        }
        Some(())
    }

    fn boundary(&mut self, text: &str) {
        self.position += 1;
        // The engine's `\b` also treats non-ASCII letters as word characters.
        self.assertion(&text.replace('W', WORD));
    }

    fn back_reference(&mut self, first: char) {
        let digits: String =
            self.units[self.position..].iter().take_while(|unit| unit.is_ascii_digit()).collect();
        match digits.parse::<usize>() {
            Ok(number) if number <= self.groups.count => {
                self.position += digits.len();
                self.atom(&format!(r"(?:\{number})"));
            }
            _ if first >= '8' => {
                self.position += 1;
                self.literal(first);
            }
            _ => {
                let unit = self.octal();
                self.literal(unit);
            }
        }
    }

    /// Parses an escape after the backslash, except for assertions outside a class.
    fn escape(&mut self) -> Option<RegexEscape> {
        let unit = self.peek()?;
        if unit.is_digit(8) {
            return Some(RegexEscape::Char(self.octal()));
        }
        self.position += 1;
        Some(match unit {
            'd' => RegexEscape::Class(format!("[{DIGIT}]")),
            'D' => RegexEscape::Class(format!("[^{DIGIT}]")),
            'w' => RegexEscape::Class(format!("[{WORD}]")),
            'W' => RegexEscape::Class(format!("[^{WORD}]")),
            's' => RegexEscape::Class(format!("[{SPACE}]")),
            'S' => RegexEscape::Class(format!("[^{SPACE}]")),
            't' => RegexEscape::Char('\t'),
            'n' => RegexEscape::Char('\n'),
            'v' => RegexEscape::Char('\u{b}'),
            'f' => RegexEscape::Char('\u{c}'),
            'r' => RegexEscape::Char('\r'),
            'x' => RegexEscape::Char(self.hex(2).unwrap_or('x')),
            'u' => RegexEscape::Char(self.hex(4).unwrap_or('u')),
            'c' => RegexEscape::Char(self.control()),
            other => RegexEscape::Char(other),
        })
    }

    fn octal(&mut self) -> char {
        let mut value = 0;
        let mut length = 0;
        while let Some(digit) = self.peek().and_then(|unit| unit.to_digit(8)) {
            if length == 3 || value * 8 + digit > 0o377 {
                break;
            }
            value = value * 8 + digit;
            length += 1;
            self.position += 1;
        }
        char::from_u32(value).unwrap_or('\0')
    }

    fn hex(&mut self, length: usize) -> Option<char> {
        let digits: String =
            self.units.get(self.position..self.position + length)?.iter().collect();
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.position += length;
        u16::from_str_radix(&digits, 16).ok().map(unit_char)
    }

    fn control(&mut self) -> char {
        match self.peek() {
            Some(letter) if letter.is_ascii_alphabetic() => {
                self.position += 1;
                char::from(letter as u8 % 32)
            }
            // Not a control escape: the backslash is a literal.
            _ => {
                self.position -= 1;
                '\\'
            }
        }
    }

    fn class(&mut self) -> Option<()> {
        let caret = if self.next_if("^") { "^" } else { "" };
        let mut inside = String::new();
        while !self.next_if("]") {
            let low = self.class_member()?;
            let range = self.peek() == Some('-') && self.units.get(self.position + 1) != Some(&']');
            if !range {
                push_member(&mut inside, &low);
                continue;
            }
            self.position += 1;
            push_range(&mut inside, &low, &self.class_member()?)?;
        }
        if inside.is_empty() {
            // The engine has no empty class.
            inside.push_str(r"[^\x{0}-\x{10FFFF}]");
        }
        self.atom(&format!("[{caret}{inside}]"));
        Some(())
    }

    fn class_member(&mut self) -> Option<RegexEscape> {
        match self.next_char()? {
            '\\' if self.next_if("b") => Some(RegexEscape::Char('\u{8}')),
            '\\' => self.escape(),
            plain => Some(RegexEscape::Char(plain)),
        }
    }
}

/// Whether the lower bound of `{n,m}` exceeds the upper one.
fn is_reversed_range(quantifier: &str) -> bool {
    let bounds = quantifier.trim_matches(['{', '}']).split_once(',');
    bounds.is_some_and(|(low, high)| match (low.parse::<u32>(), high.parse::<u32>()) {
        (Ok(low), Ok(high)) => low > high,
        _ => false,
    })
}

fn push_member(inside: &mut String, member: &RegexEscape) {
    match member {
        RegexEscape::Char(unit) => push_char(inside, *unit),
        RegexEscape::Class(class) => inside.push_str(class),
    }
}

/// Appends a range. If one end is a class, appends both ends and a literal hyphen instead.
fn push_range(inside: &mut String, low: &RegexEscape, high: &RegexEscape) -> Option<()> {
    if let (RegexEscape::Char(low), RegexEscape::Char(high)) = (low, high) {
        return push_unit_range(inside, *low, *high);
    }
    push_member(inside, low);
    push_char(inside, '-');
    push_member(inside, high);
    Some(())
}

fn push_unit_range(inside: &mut String, low: char, high: char) -> Option<()> {
    // Surrogates are characters above U+FFFF here. Masking restores the code unit order.
    let order = |unit: char| u32::from(unit) & 0xFFFF;
    if order(low) > order(high) {
        return None;
    }
    let mut piece = |from: u32, to: u32, moved: u32| {
        let (from, to) = (order(low).max(from), order(high).min(to));
        if from <= to {
            let _ = write!(inside, r"\x{{{:X}}}-\x{{{:X}}}", from + moved, to + moved);
        }
    };
    piece(0, 0xD7FF, 0);
    piece(0xD800, 0xDFFF, 0xF_0000);
    piece(0xE000, 0xFFFF, 0);
    Some(())
}

fn push_char(out: &mut String, unit: char) {
    if unit.is_ascii_alphanumeric() || !unit.is_ascii() {
        out.push(unit);
    } else {
        let _ = write!(out, r"\x{{{:X}}}", u32::from(unit));
    }
}

fn count_groups(units: &[char]) -> GroupInfo {
    let mut groups = GroupInfo { count: 0, has_named: false };
    let mut in_class = false;
    let mut at = 0;
    while let Some(unit) = units.get(at) {
        match unit {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let is_named = units.get(at + 1..at + 3) == Some(&['?', '<'])
                    && !matches!(units.get(at + 3), Some('=' | '!'));
                groups.has_named |= is_named;
                groups.count += usize::from(is_named || units.get(at + 1) != Some(&'?'));
            }
            _ => {}
        }
        at += 1;
    }
    groups
}
