//! `token` is the compiler's lexer, and `Author` writes its source text. The language is a small C with declarations,
//! assignments, if, while and calls.

use crate::data_rng::DataRng;

/// `Token` is a punctuation or operator byte, a word (its hash), or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Mark(u8),
    Word(u64),
    Number(u32),
    End,
}

/// Returns the FNV-1a hash, with which the compiler's symbol table hashes.
pub(crate) fn hash(word: &[u8]) -> u64 {
    word.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Returns the next token at `at`, and its end.
pub(crate) fn token(text: &[u8], mut at: usize) -> (Token, usize) {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    let Some(&first) = text.get(at) else { return (Token::End, at) };
    let length = |test: fn(&u8) -> bool| text[at..].iter().take_while(|b| test(b)).count();
    if first.is_ascii_alphabetic() || first == b'_' {
        let end = at + length(|b| b.is_ascii_alphanumeric() || *b == b'_');
        return (Token::Word(hash(&text[at..end])), end);
    }
    if first.is_ascii_digit() {
        let end = at + length(u8::is_ascii_digit);
        let number =
            text[at..end].iter().fold(0u32, |n, b| n.wrapping_mul(10).wrapping_add(u32::from(b - b'0')));
        return (Token::Number(number), end);
    }
    (Token::Mark(first), at + 1)
}

/// `Author` writes source text as a programmer would: names recur, and most expressions are short.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    draws: DataRng,
    /// The number of names declared in headers so far.
    names: u64,
}

impl Author {
    pub(crate) fn new(draws: DataRng) -> Self {
        Self { draws, names: 0 }
    }

    fn name(&mut self, text: &mut Vec<u8>) {
        // Half of all uses are of a dozen local names; the others are of names in the headers.
        let below = if self.draws.below(2) == 0 { 12 } else { self.names.max(1) };
        let number = self.draws.below(below);
        word(number, text);
    }

    /// Writes a declaration of a header.
    pub(crate) fn declaration(&mut self, text: &mut Vec<u8>) {
        text.extend_from_slice(b"extern int ");
        word(self.names, text);
        self.names += 1;
        text.extend_from_slice(b" ( ");
        for parameter in 0..self.draws.below(4) {
            text.extend_from_slice(if parameter == 0 { b"char " } else { b", int " });
        }
        text.extend_from_slice(b");\n");
    }

    /// Writes a statement, with blocks nested at most `depth` deep.
    pub(crate) fn statement(&mut self, text: &mut Vec<u8>, depth: u32) {
        match self.draws.below(10) {
            0 | 1 if depth > 0 => {
                let head: &[u8] = if self.draws.below(3) == 0 { b"while (" } else { b"if (" };
                text.extend_from_slice(head);
                self.expression(text, 2);
                text.extend_from_slice(b") {\n");
                for _ in 0..1 + self.draws.below(4) {
                    self.statement(text, depth - 1);
                }
                text.extend_from_slice(b"}\n");
            }
            2 => {
                self.call(text, 2);
                text.extend_from_slice(b";\n");
            }
            _ => {
                self.name(text);
                text.extend_from_slice(b" = ");
                self.expression(text, 3);
                text.extend_from_slice(b";\n");
            }
        }
    }

    fn call(&mut self, text: &mut Vec<u8>, depth: u32) {
        self.name(text);
        text.extend_from_slice(b" (");
        for argument in 0..self.draws.below(4) {
            if argument > 0 {
                text.push(b',');
            }
            self.expression(text, depth - 1);
        }
        text.push(b')');
    }

    fn expression(&mut self, text: &mut Vec<u8>, depth: u32) {
        match self.draws.below(if depth == 0 { 4 } else { 10 }) {
            0 | 1 => self.name(text),
            2 | 3 => text.extend_from_slice(self.draws.below(1000).to_string().as_bytes()),
            4 => self.call(text, depth),
            5 => {
                text.push(b'(');
                self.expression(text, depth - 1);
                text.push(b')');
            }
            _ => {
                self.expression(text, depth - 1);
                text.push(b' ');
                text.push(b"+-*/<>&|"[self.draws.below(8) as usize]);
                text.push(b' ');
                self.expression(text, depth - 1);
            }
        }
    }
}

/// Writes the name with this number.
fn word(mut number: u64, text: &mut Vec<u8>) {
    text.push(b'a' + (number % 26) as u8);
    number /= 26;
    while number > 0 {
        text.push(b"etaoinshrdlucmfw"[(number % 16) as usize]);
        number /= 16;
    }
    text.push(b'_');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let text = b"while (x_1 <20) y=3;";
        let mut at = 0;
        let mut seen = Vec::new();
        while at < text.len() {
            let (token, end) = token(text, at);
            seen.push(token);
            at = end;
        }
        let (m, w, n) = (Token::Mark, |s: &[u8]| Token::Word(hash(s)), Token::Number);
        assert_eq!(
            seen,
            [w(b"while"), m(b'('), w(b"x_1"), m(b'<'), n(20), m(b')'), w(b"y"), m(b'='), n(3), m(b';')]
        );
    }
}
