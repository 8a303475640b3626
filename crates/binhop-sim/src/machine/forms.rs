//! Each form of value is one type: text, sizes, whole numbers, true or false, choices, and sections with names
//! of the user's choice.

use binhop_base::escape::quoted;
use binhop_base::{Bytes, Picoseconds, Problem, Result};
use binhop_hw::{CostRule, IndexBy, Replacement, Rules, TagBy, WritePolicy, WritebackOrder};
use binhop_os::StateScope;

use super::document::{Located, Value, unknown};
use super::keys::{At, Form, Key, Resolved, Section};

impl Form for String {
    fn form() -> String {
        "text".to_string()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        match located.value {
            Value::Text(text) => Ok(text),
            _ => Err(key.wrong_form(&located)),
        }
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &quoted(self));
    }
}

impl Form for Bytes {
    fn form() -> String {
        "a size".to_string()
    }

    fn read(located: Located, _: &Key) -> Result<Self> {
        Self::parse(&located.value.shown(), &located.place)
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &format!("\"{self}\""));
    }
}

impl Form for Picoseconds {
    fn form() -> String {
        "a time".to_string()
    }

    fn read(located: Located, _: &Key) -> Result<Self> {
        let time = Self::parse(&located.value.shown(), &located.place)?;
        if time > MOST_TIME || time == Self(0) {
            return Err(Problem::request(
                &time.to_string(),
                &located.place,
                &format!("a time lies between 1ps and {MOST_TIME}"),
                "write it like \"40ns\" or \"2.5ns\"",
            ));
        }
        Ok(time)
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &format!("\"{self}\""));
    }
}

/// The longest time: a millisecond. The cycles of a run times a cycle then fit into 128 bits with ease.
const MOST_TIME: Picoseconds = Picoseconds(1_000_000_000);

impl Form for bool {
    fn form() -> String {
        "true or false".to_string()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        match located.value {
            Value::Boolean(truth) => Ok(truth),
            _ => Err(key.wrong_form(&located)),
        }
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &self.to_string());
    }
}

/// `UpTo` is a whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UpTo<const MOST: u32, const LEAST: u32 = 0>(pub(super) u32);

impl<const MOST: u32, const LEAST: u32> Form for UpTo<MOST, LEAST> {
    fn form() -> String {
        if (LEAST, MOST) == (0, u32::MAX) {
            "a whole number".to_string()
        } else {
            format!("a whole number from {LEAST} to {MOST}")
        }
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        let Value::Integer(number) = located.value else { return Err(key.wrong_form(&located)) };
        match u32::try_from(number) {
            Ok(number) if (LEAST..=MOST).contains(&number) => Ok(Self(number)),
            _ => Err(Problem::request(
                &number.to_string(),
                &located.place,
                &format!("{} lies between {LEAST} and {MOST}", key.name),
                "give a number in that range",
            )),
        }
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &self.0.to_string());
    }
}

/// Implements [`Form`] for an enumeration that has `ALL` and `name`.
macro_rules! choice {
    ($($type:ty),*) => {$(
        impl $crate::machine::keys::Form for $type {
            fn form() -> String {
                $crate::machine::forms::either(Self::ALL.iter().map(|choice| choice.name()))
            }

            fn read(
                located: $crate::machine::document::Located,
                key: &$crate::machine::keys::Key,
            ) -> binhop_base::Result<Self> {
                $crate::machine::forms::choose(located, key, Self::ALL, Self::name)
            }

            fn write(&self, name: &str, resolved: &mut $crate::machine::keys::Resolved<'_>) {
                resolved.line(name, &format!("{:?}", self.name()));
            }
        }
    )*};
}
pub(super) use choice;

choice!(CostRule, IndexBy, Replacement, Rules, StateScope, TagBy, WritePolicy, WritebackOrder);

/// Returns the choices in words: `"a", "b" or "c"`.
pub(super) fn either(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Finds the choice that a key names.
pub(super) fn choose<T: Copy>(
    located: Located,
    key: &Key,
    choices: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<T> {
    let place = located.place.clone();
    let text = String::read(located, key)?;
    match choices.iter().find(|&&choice| name_of(choice) == text) {
        Some(&choice) => Ok(choice),
        None => {
            let names = choices.iter().map(|&choice| name_of(choice));
            Err(unknown(&text, &place, &format!("{} is one of", key.name), names))
        }
    }
}

/// `Named` holds sections of one kind under names of the user's choice, in order: every `[cache.NAME]`.
#[derive(Clone, Debug)]
pub(super) struct Named<T>(pub(super) Vec<(String, At<T>)>);

impl<T: Form> Form for Named<T> {
    const KEYS: &'static [Key] = T::KEYS;

    fn form() -> String {
        "sections".to_string()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        let mut section = Section::open(key.name, T::KEYS, located)?;
        Ok(Self(read_all(section.take_rest(), key)?))
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        for (of_user, section) in &self.0 {
            section.value.write(&format!("{name}.{}", in_toml(of_user)), resolved);
        }
    }
}

/// `Rest` holds the keys of a section whose names are the user's choice. It is the last key of its list, and
/// takes the entries that the keys before it have left.
#[derive(Clone, Debug)]
pub(super) struct Rest<T>(pub(super) Vec<(String, At<T>)>);

impl<T: Form> Form for Rest<T> {
    fn form() -> String {
        T::form()
    }

    fn take(section: &mut Section, key: &Key) -> Result<Option<At<Self>>> {
        Ok(Some(At::derived(Self(read_all(section.take_rest(), key)?))))
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        unreachable!("{}: {} has no one value", located.place, key.name)
    }

    fn write(&self, _: &str, resolved: &mut Resolved<'_>) {
        for (name, at) in &self.0 {
            at.value.write(&in_toml(name), resolved);
        }
    }
}

fn read_all<T: Form>(entries: Vec<(String, Located)>, key: &Key) -> Result<Vec<(String, At<T>)>> {
    let read = |(name, located): (String, Located)| {
        let place = located.place.clone();
        Ok((name, At { value: T::read(located, key)?, place }))
    };
    entries.into_iter().map(read).collect()
}

/// `Given` is a section with the keys that the description states in it, each with its place, in the order of
/// the description.
#[derive(Clone, Debug)]
pub(super) struct Given<T> {
    pub(super) keys: T,
    pub(super) given: Vec<(String, String)>,
}

impl<T: Form> Form for Given<T> {
    const KEYS: &'static [Key] = T::KEYS;

    fn form() -> String {
        T::form()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        let given = match &located.value {
            Value::Table(entries) => {
                entries.iter().map(|(name, at)| (name.clone(), at.place.clone())).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self { keys: T::read(located, key)?, given })
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        self.keys.write(name, resolved);
    }
}

/// `Deferred` is a section that is read when the names to which it refers are known.
#[derive(Clone, Debug)]
pub(super) enum Deferred<T> {
    Unread(Located, Key),
    Read(T),
}

impl<T: Form> Deferred<T> {
    /// Returns the names of the entries that are not read yet, with their places.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = match self {
            Self::Unread(Located { value: Value::Table(entries), .. }, _) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(name, located)| (name.as_str(), located.place.as_str()))
    }

    pub(super) fn read_now(&mut self) -> Result<&mut T> {
        if let Self::Unread(located, key) = self {
            *self = Self::Read(T::read(located.clone(), key)?);
        }
        match self {
            Self::Read(section) => Ok(section),
            Self::Unread(..) => unreachable!("read just above"),
        }
    }
}

impl<T: Form> Form for Deferred<T> {
    const KEYS: &'static [Key] = T::KEYS;

    fn form() -> String {
        T::form()
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        Ok(Self::Unread(located, *key))
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        match self {
            Self::Read(section) => section.write(name, resolved),
            Self::Unread(located, _) => unreachable!("{}: not read", located.place),
        }
    }
}

/// Returns a name as a TOML key: bare where TOML allows it.
fn in_toml(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_bare { name.to_string() } else { quoted(name) }
}
