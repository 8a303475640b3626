//! A machine description as its user wrote it: a tree of values, each knowing where it stands.

use binhop_base::{Bytes, Problem, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Key};
use crate::nearest;

/// A value and where it stands: `kh90.toml: line 7: cache.l2.size`.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) place: String,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Table(Vec<(String, Located)>),
    /// A kind of value no key of a machine takes (a date, a list, a fraction), as it was written.
    Other(String),
}

impl Value {
    /// The value as a user would write it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Other(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Boolean(truth) => truth.to_string(),
            Self::Table(_) => "a section".to_string(),
        }
    }
}

/// Reads a machine description and applies `key=value` settings to it, later ones over earlier ones.
pub(crate) fn parse(text: &str, place: &str, settings: &[String]) -> Result<Located> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        Problem::request(
            error.message(),
            &format!("{place}: line {line}"),
            "a machine is described in TOML",
            "see `binhop machines` for complete examples",
        )
    })?;
    let root = convert(DeValue::Table(table.into_inner()), "", place, &|at| line_of(text, at));
    let mut root = Located { place: place.to_string(), value: root };
    for setting in settings {
        set(&mut root, setting)?;
    }
    Ok(root)
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

fn convert(value: DeValue<'_>, path: &str, place: &str, line: &dyn Fn(usize) -> usize) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(truth) => Value::Boolean(truth),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other(number.as_str().to_string()),
        },
        DeValue::Table(table) => Value::Table(
            table
                .into_iter()
                .map(|(key, value)| {
                    let key = key.into_inner().into_owned();
                    let path = join(path, &key);
                    let at = format!("{place}: line {}: {path}", line(value.span().start));
                    let value = convert(Spanned::into_inner(value), &path, place, line);
                    (key, Located { place: at, value })
                })
                .collect(),
        ),
        DeValue::Float(number) => Value::Other(number.as_str().to_string()),
        DeValue::Datetime(date) => Value::Other(date.to_string()),
        DeValue::Array(_) => Value::Other("a list".to_string()),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// Applies one `cache.l2.size=4MiB`.
fn set(root: &mut Located, setting: &str) -> Result<()> {
    let place = format!("--set {setting}");
    let Some((path, text)) = setting.split_once('=') else {
        return Err(Problem::request(
            setting,
            "--set",
            "a setting is KEY=VALUE",
            "write it like --set cache.l2.size=4MiB",
        ));
    };
    let text = text.trim();
    let value = match DeValue::parse(text) {
        Ok(value) => convert(value.into_inner(), path.trim(), &place, &|_| 1),
        // 4MiB and random are no TOML values; between quotes they would be.
        Err(_) => Value::Text(text.to_string()),
    };
    let mut at = root;
    for key in path.trim().split('.') {
        if !matches!(at.value, Value::Table(_)) {
            at.value = Value::Table(Vec::new());
        }
        let Value::Table(entries) = &mut at.value else { unreachable!("made a table just above") };
        let index = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            entries
                .push((key.to_string(), Located { place: place.clone(), value: Value::Table(Vec::new()) }));
            entries.len() - 1
        });
        at = &mut entries[index].1;
    }
    *at = Located { place, value };
    Ok(())
}

/// One section of a description while it is being read: keys are taken out, what is left is unknown.
pub(crate) struct Section {
    kind: &'static str,
    place: String,
    entries: Vec<(String, Located)>,
}

impl Section {
    /// `kind` names the section in [`keys::KEYS`].
    pub(crate) fn open(kind: &'static str, located: Located) -> Result<Self> {
        let Value::Table(entries) = located.value else {
            return Err(Problem::request(
                &located.value.shown(),
                &located.place,
                &format!("{kind} is a section with keys of its own"),
                &format!("write it like {kind} = {{ {} = … }}", keys::of(kind).next().map_or("", |k| k.name)),
            ));
        };
        Ok(Self { kind, place: located.place, entries })
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The keys that are there, known or not, with their places.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, located)| (key.as_str(), located.place.as_str()))
    }

    /// Returns whether the list of keys has a key of this name in this section.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.key(name).is_some()
    }

    /// Takes a key out, whatever its value.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Located> {
        debug_assert!(self.key(name).is_some(), "{}.{name} is not in the list of keys", self.kind);
        let index = self.entries.iter().position(|(key, _)| key == name)?;
        Some(self.entries.remove(index).1)
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        keys::of(self.kind).find(|key| key.name == name)
    }

    fn wrong(&self, name: &'static str, located: &Located) -> Box<Problem> {
        let form = self.key(name).map_or("", |key| key.form);
        Problem::request(
            &located.value.shown(),
            &located.place,
            &format!("{name} takes {form}"),
            "write it in that form",
        )
    }

    /// A key that holds text, with its place.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<(String, String)>> {
        match self.take(name) {
            None => Ok(None),
            Some(Located { value: Value::Text(text), place }) => Ok(Some((text, place))),
            Some(other) => Err(self.wrong(name, &other)),
        }
    }

    /// A key that holds a size in bytes, with its place.
    pub(crate) fn size(&mut self, name: &'static str) -> Result<Option<(Bytes, String)>> {
        let Some(Located { value, place }) = self.take(name) else { return Ok(None) };
        Ok(Some((Bytes::parse(&value.shown(), &place)?, place)))
    }

    /// A key that holds a whole number from 0 to `most`, with its place.
    pub(crate) fn number(&mut self, name: &'static str, most: u32) -> Result<Option<(u32, String)>> {
        let Some(located) = self.take(name) else { return Ok(None) };
        let Value::Integer(number) = located.value else { return Err(self.wrong(name, &located)) };
        match u32::try_from(number) {
            Ok(number) if number <= most => Ok(Some((number, located.place))),
            _ => Err(Problem::request(
                &number.to_string(),
                &located.place,
                &format!("{name} lies between 0 and {most}"),
                "give a number in that range",
            )),
        }
    }

    /// A key that is true or false.
    pub(crate) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Located { value: Value::Boolean(truth), .. }) => Ok(Some(truth)),
            Some(other) => Err(self.wrong(name, &other)),
        }
    }

    /// A key that names one of a list, with its place.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Result<Option<(T, String)>> {
        let Some((text, place)) = self.text(name)? else { return Ok(None) };
        let names = || choices.iter().map(|&choice| name_of(choice));
        match choices.iter().find(|&&choice| name_of(choice) == text) {
            Some(&choice) => Ok(Some((choice, place))),
            None => Err(unknown(&text, &place, &format!("{name} is one of"), names())),
        }
    }

    /// A key that names one of a list, or a default.
    pub(crate) fn choice_or<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[T],
        name_of: impl Fn(T) -> &'static str,
        default: T,
    ) -> Result<T> {
        Ok(self.choice(name, choices, name_of)?.map_or(default, |(choice, _)| choice))
    }

    /// A key that must be there.
    pub(crate) fn required<T>(&self, name: &'static str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| {
            let key = self.key(name).map_or("", |key| key.meaning);
            let form = self.key(name).map_or("", |key| key.form);
            Problem::request(
                "missing",
                &format!("{}: {name}", self.place),
                &format!("{name} must be given: {key}"),
                &format!("add {name} = … ({form})"),
            )
        })
    }

    /// The subsections that bear names of the user's choice (`[cache.NAME]`), in order.
    pub(crate) fn named(&mut self) -> Vec<(String, Located)> {
        std::mem::take(&mut self.entries)
    }

    /// Refuses what is left: a key that does not exist is a typing error, not a wish to ignore.
    pub(crate) fn finish(self) -> Result<()> {
        match self.entries.first() {
            None => Ok(()),
            Some((name, located)) => {
                let what = if self.kind.is_empty() { "a machine".to_string() } else { self.kind.to_string() };
                let rule = format!("{what} has no key {name}; its keys are");
                Err(unknown(name, &located.place, &rule, keys::of(self.kind).map(|key| key.name)))
            }
        }
    }
}

/// The refusal of a name that is not in a list, with the nearest one that is.
pub(crate) fn unknown(
    value: &str,
    place: &str,
    rule: &str,
    known: impl Iterator<Item = &'static str>,
) -> Box<Problem> {
    let known: Vec<&str> = known.collect();
    let remedy = match nearest(value, known.iter().copied()) {
        Some(name) => format!("did you mean {name}?"),
        None => "choose one of them".to_string(),
    };
    Problem::request(value, place, &format!("{rule} {}", known.join(", ")), &remedy)
}
