//! These functions parse numbers and fields in lines of bytes.

/// The value of each hexadecimal digit. Every other byte has the value 16.
const DIGIT: [u8; 256] = {
    let mut table = [16; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value] as usize] = value as u8;
        table[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// Reads hexadecimal digits from `at` on. Returns their value and the offset behind them, which is `at` if
/// there is no digit.
///
/// The value of more than 16 digits wraps. [`number`] refuses such a field.
#[inline]
pub(super) fn hex_from(text: &[u8], at: usize) -> (u64, usize) {
    let mut value = 0;
    let mut at = at;
    while let Some(&byte) = text.get(at) {
        let digit = DIGIT[byte as usize];
        if digit > 15 {
            break;
        }
        value = value << 4 | u64::from(digit);
        at += 1;
    }
    (value, at)
}

/// Reads decimal digits from `at` on, as [`hex_from`] does. More than nine digits have no value.
#[inline]
pub(super) fn decimal_from(text: &[u8], at: usize) -> (u32, usize) {
    let mut value: u32 = 0;
    let start = at;
    let mut at = at;
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        if at - start == 9 {
            return (0, start);
        }
        value = value * 10 + u32::from(digit);
        at += 1;
    }
    (value, at)
}

/// Returns a whole field as a number of a base. A field of base 16 may begin with `0x`.
pub(super) fn number(field: &[u8], base: u32) -> Option<u64> {
    let digits = match field {
        [b'0', b'x' | b'X', digits @ ..] if base == 16 => digits,
        digits => digits,
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &byte| {
        let digit = (byte as char).to_digit(base)?;
        value.checked_mul(u64::from(base))?.checked_add(u64::from(digit))
    })
}

/// Returns whether a byte separates fields: a blank, a tab, or the carriage return of a DOS file.
#[inline]
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Returns the fields of a line.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| is_blank(byte)).filter(|field| !field.is_empty())
}

/// Returns the line that starts at `at`, without its newline, and the offset of the next line.
#[inline]
pub(super) fn line_from(text: &[u8], at: usize) -> (&[u8], usize) {
    let rest = &text[at..];
    let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    (&rest[..length], (at + length + 1).min(text.len()))
}
