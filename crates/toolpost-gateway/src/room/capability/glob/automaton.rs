//! A bit-parallel automaton: all states of a pattern advance at once.
//!
//! Each state is a bit, and each byte of the text advances all states. The running time is the
//! length of the text times the length of the pattern in 64-bit words.

use super::token::GlobToken;
use crate::room::capability::error::MAX_STRING_BYTES;

/// Number of 64-bit words for the states of the longest pattern. Percent-encoding can triple each
/// byte of the pattern, and one accepting state follows the last one.
const MAX_WORDS: usize = (MAX_STRING_BYTES * 3 + 1).div_ceil(64);

type StateSet = Box<[u64]>;

#[derive(Debug)]
pub(super) struct Automaton {
    words: usize,
    /// The accepting state, after the last token.
    accept: usize,
    /// Index into `byte_transitions` for each byte. Index 0 has no transitions.
    byte_class: Box<[u8; 256]>,
    /// For each byte class, the states that advance on the byte.
    byte_transitions: Vec<StateSet>,
    /// States that advance on any character except a slash.
    any_char: StateSet,
    /// States that follow `any_char` states. They stay active on UTF-8 continuation bytes.
    after_any_char: StateSet,
    /// States that stay active on any byte except a slash.
    segment_loops: StateSet,
    /// States that stay active on any byte.
    any_loops: StateSet,
    /// States of `segment_loops` and `any_loops`. A run can be empty, so these states can be
    /// skipped.
    skippable_runs: StateSet,
    /// States before `**/`, which can be entered or skipped.
    directories: StateSet,
    /// States before a trailing `/**`, which can be skipped.
    subtrees: StateSet,
}

impl Automaton {
    pub(super) fn new(tokens: &[GlobToken]) -> Self {
        let total_states: usize = tokens.iter().map(|token| state_count(*token)).sum();
        let words = (total_states + 1).div_ceil(64);
        let none = || vec![0; words].into_boxed_slice();
        let mut new = Self {
            words,
            accept: 0,
            byte_class: Box::new([0; 256]),
            byte_transitions: vec![none()],
            any_char: none(),
            after_any_char: none(),
            segment_loops: none(),
            any_loops: none(),
            skippable_runs: none(),
            directories: none(),
            subtrees: none(),
        };
        for token in tokens {
            new.push(*token);
        }
        new
    }

    fn push(&mut self, token: GlobToken) {
        match token {
            GlobToken::Literal(letter) => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    self.push_byte(byte);
                }
            }
            GlobToken::AnyChar => {
                set_bit(&mut self.any_char, self.accept);
                set_bit(&mut self.after_any_char, self.accept + 1);
                self.accept += 1;
            }
            GlobToken::SegmentRun => self.push_run(|states| &mut states.segment_loops),
            GlobToken::AnyRun => self.push_run(|states| &mut states.any_loops),
            GlobToken::Directories => {
                // A separate entry state, so that a state inside the run cannot skip the group.
                set_bit(&mut self.directories, self.accept);
                self.accept += 1;
                self.push_run(|states| &mut states.any_loops);
                self.push_byte(b'/');
            }
            GlobToken::Subtree => {
                set_bit(&mut self.subtrees, self.accept);
                self.push_byte(b'/');
                self.push_run(|states| &mut states.any_loops);
            }
        }
    }

    fn push_run(&mut self, kind: impl Fn(&mut Self) -> &mut StateSet) {
        let end = self.accept;
        set_bit(kind(self), end);
        set_bit(&mut self.skippable_runs, end);
        self.accept += 1;
    }

    fn push_byte(&mut self, byte: u8) {
        let class = &mut self.byte_class[usize::from(byte)];
        if *class == 0 {
            // UTF-8 uses 243 byte values, so the class index fits.
            *class = u8::try_from(self.byte_transitions.len()).unwrap_or(0);
            self.byte_transitions.push(vec![0; self.words].into());
        }
        set_bit(&mut self.byte_transitions[usize::from(*class)], self.accept);
        self.accept += 1;
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        // Most patterns fit in one word, and a single word is faster to clear.
        if self.words == 1 {
            return self.run(&mut [0; 1], text);
        }
        let mut states = [0; MAX_WORDS];
        states.get_mut(..self.words).is_some_and(|states| self.run(states, text))
    }

    fn run(&self, states: &mut [u64], text: &str) -> bool {
        states[0] = 1;
        self.epsilon_closure(states);
        for byte in text.bytes() {
            if !self.step(states, byte) {
                return false;
            }
        }
        states[self.accept / 64] >> (self.accept % 64) & 1 == 1
    }

    /// Advances all states by one byte. Returns whether any state remains.
    fn step(&self, states: &mut [u64], byte: u8) -> bool {
        let transitions = &self.byte_transitions[usize::from(self.byte_class[usize::from(byte)])];
        let inside = mask(byte & 0xC0 == 0x80);
        let no_slash = mask(byte != b'/');
        let (mut carry, mut any) = (0, 0);
        for (at, state) in states.iter_mut().enumerate() {
            let on = *state & (transitions[at] | self.any_char[at] & no_slash & !inside);
            let stay = self.any_loops[at]
                | self.segment_loops[at] & no_slash
                | self.after_any_char[at] & inside;
            let next = on << 1 | carry | *state & stay;
            carry = on >> 63;
            *state = next;
            any |= next;
        }
        self.epsilon_closure(states);
        any != 0
    }

    /// Adds the states that are reachable without input. One pass in this order is sufficient: no
    /// `**/` begins after a run, and nothing follows a trailing `/**`.
    fn epsilon_closure(&self, states: &mut [u64]) {
        add_epsilon(states, &self.directories, 3);
        add_epsilon(states, &self.directories, 1);
        add_epsilon(states, &self.skippable_runs, 1);
        add_epsilon(states, &self.subtrees, 2);
    }
}

fn add_epsilon(states: &mut [u64], from: &[u64], by: u32) {
    for at in 0..states.len() {
        let on = states[at] & from[at];
        states[at] |= on << by;
        if let Some(next) = states.get_mut(at + 1) {
            *next |= on >> (64 - by);
        }
    }
}

fn set_bit(states: &mut [u64], state: usize) {
    states[state / 64] |= 1 << (state % 64);
}

fn mask(is_set: bool) -> u64 {
    if is_set { u64::MAX } else { 0 }
}

fn state_count(token: GlobToken) -> usize {
    match token {
        GlobToken::Literal(letter) => letter.len_utf8(),
        GlobToken::AnyChar | GlobToken::SegmentRun | GlobToken::AnyRun => 1,
        GlobToken::Subtree => 2,
        GlobToken::Directories => 3,
    }
}
