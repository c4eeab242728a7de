//! Every place in a pattern where a text can be, followed at once.
//!
//! A place is a bit; a byte of the text moves all of them together. The time is that of the text
//! times the pattern's length in machine words, whatever they are.

use super::token::Token;
use crate::room::capability::error::LONGEST_TEXT;

/// Words for the places of the longest pattern: each of its bytes may have become three, and
/// there is a place behind the last one.
const MOST_WORDS: usize = (LONGEST_TEXT * 3 + 1).div_ceil(64);

type Places = Box<[u64]>;

#[derive(Debug)]
pub(super) struct Automaton {
    words: usize,
    /// The place behind the last step.
    end: usize,
    /// Which of `letters` a byte has; the first has no places.
    class: Box<[u8; 256]>,
    /// The places that a byte leads on from.
    letters: Vec<Places>,
    /// The places that any character but a slash leads on from.
    one: Places,
    /// Behind these: the bytes inside of a character stay there.
    behind_one: Places,
    /// The places at which bytes other than slashes stay.
    within: Places,
    /// The places at which every byte stays.
    across: Places,
    /// Both of these: a run may be empty.
    runs: Places,
    /// The places before `**/`, which can be entered or left out.
    folders: Places,
    /// The places before `/**` at the end, which can be left out.
    below: Places,
}

impl Automaton {
    pub(super) fn new(tokens: &[Token]) -> Self {
        let steps: usize = tokens.iter().map(|token| width(*token)).sum();
        let words = (steps + 1).div_ceil(64);
        let none = || vec![0; words].into_boxed_slice();
        let mut new = Self {
            words,
            end: 0,
            class: Box::new([0; 256]),
            letters: vec![none()],
            one: none(),
            behind_one: none(),
            within: none(),
            across: none(),
            runs: none(),
            folders: none(),
            below: none(),
        };
        for token in tokens {
            new.push(*token);
        }
        new
    }

    fn push(&mut self, token: Token) {
        match token {
            Token::Letter(letter) => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    self.push_byte(byte);
                }
            }
            Token::One => {
                set(&mut self.one, self.end);
                set(&mut self.behind_one, self.end + 1);
                self.end += 1;
            }
            Token::Within => self.push_run(|places| &mut places.within),
            Token::Across => self.push_run(|places| &mut places.across),
            Token::Folders => {
                // A place of its own in front: what is inside of the run may not leave it for nothing.
                set(&mut self.folders, self.end);
                self.end += 1;
                self.push_run(|places| &mut places.across);
                self.push_byte(b'/');
            }
            Token::Below => {
                set(&mut self.below, self.end);
                self.push_byte(b'/');
                self.push_run(|places| &mut places.across);
            }
        }
    }

    fn push_run(&mut self, kind: impl Fn(&mut Self) -> &mut Places) {
        let end = self.end;
        set(kind(self), end);
        set(&mut self.runs, end);
        self.end += 1;
    }

    fn push_byte(&mut self, byte: u8) {
        let class = &mut self.class[usize::from(byte)];
        if *class == 0 {
            // There are at most 194 bytes that UTF-8 has, so that the number fits.
            *class = u8::try_from(self.letters.len()).unwrap_or(0);
            self.letters.push(vec![0; self.words].into());
        }
        set(&mut self.letters[usize::from(*class)], self.end);
        self.end += 1;
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        // Nearly every pattern has places for one word, and few places are cleared faster.
        if self.words == 1 {
            return self.fits_from(&mut [0; 1], text);
        }
        let mut places = [0; MOST_WORDS];
        places.get_mut(..self.words).is_some_and(|places| self.fits_from(places, text))
    }

    fn fits_from(&self, places: &mut [u64], text: &str) -> bool {
        places[0] = 1;
        self.skip(places);
        for byte in text.bytes() {
            if !self.step(places, byte) {
                return false;
            }
        }
        places[self.end / 64] >> (self.end % 64) & 1 == 1
    }

    /// Whether there is any place left behind this byte.
    fn step(&self, places: &mut [u64], byte: u8) -> bool {
        let letter = &self.letters[usize::from(self.class[usize::from(byte)])];
        let inside = mask(byte & 0xC0 == 0x80);
        let no_slash = mask(byte != b'/');
        let (mut carry, mut any) = (0, 0);
        for (at, place) in places.iter_mut().enumerate() {
            let on = *place & (letter[at] | self.one[at] & no_slash & !inside);
            let stay = self.across[at] | self.within[at] & no_slash | self.behind_one[at] & inside;
            let next = on << 1 | carry | *place & stay;
            carry = on >> 63;
            *place = next;
            any |= next;
        }
        self.skip(places);
        any != 0
    }

    /// Adds the places that are reached for nothing. In this order once is enough: no `**/` begins
    /// behind a run, and nothing is behind a `/**` at the end.
    fn skip(&self, places: &mut [u64]) {
        skip(places, &self.folders, 3);
        skip(places, &self.folders, 1);
        skip(places, &self.runs, 1);
        skip(places, &self.below, 2);
    }
}

fn skip(places: &mut [u64], from: &[u64], by: u32) {
    for at in 0..places.len() {
        let on = places[at] & from[at];
        places[at] |= on << by;
        if let Some(next) = places.get_mut(at + 1) {
            *next |= on >> (64 - by);
        }
    }
}

fn set(places: &mut [u64], place: usize) {
    places[place / 64] |= 1 << (place % 64);
}

fn mask(holds: bool) -> u64 {
    if holds { u64::MAX } else { 0 }
}

fn width(token: Token) -> usize {
    match token {
        Token::Letter(letter) => letter.len_utf8(),
        Token::One | Token::Within | Token::Across => 1,
        Token::Below => 2,
        Token::Folders => 3,
    }
}
