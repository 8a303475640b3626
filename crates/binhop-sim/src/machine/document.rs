//! `document` reads a machine description as its user wrote it, into a tree of values with their places.

use binhop_base::{Problem, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::nearest;

/// `Located` is a value with its place, such as `kh90.toml: line 7: cache.l2.size`.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) place: String,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Table(Vec<(String, Located)>),
    /// A date, a list or a fraction, as it was written. No key of a machine takes such a value.
    Other(String),
}

impl Value {
    /// Reads a value as users write it in a setting. `4MiB` and `random` are not TOML values; they are read as texts.
    pub(super) fn typed(text: &str) -> Self {
        Self::read(text, "", "")
    }

    fn read(text: &str, path: &str, place: &str) -> Self {
        match DeValue::parse(text) {
            Ok(value) => convert(value.into_inner(), path, place, &|_| 1),
            Err(_) => Self::Text(text.to_string()),
        }
    }

    /// Returns the value as a user would write it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Other(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Boolean(truth) => truth.to_string(),
            Self::Table(_) => "a section".to_string(),
        }
    }
}

/// Reads a machine description, and applies `key=value` settings to it. A later setting wins.
pub(super) fn parse(text: &str, place: &str, settings: &[String]) -> Result<Located> {
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

/// Returns the setting for which another setting stands: `translation=on` is `translation.active=true`,
/// `dram=off` is `dram.preset=off`.
///
/// # Errors
/// The setting is neither on nor off.
fn shorthand<'a>(path: &'a str, text: &'a str, place: &str) -> Result<(&'a str, &'a str)> {
    Ok(match (path, text) {
        ("translation", "on" | "true") => ("translation.active", "true"),
        ("translation", "off" | "false") => ("translation.active", "false"),
        ("translation", other) => {
            return Err(Problem::request(
                other,
                place,
                "a setting turns translation on or off, or names a key, as in translation.table=hashed",
                "write it like --set translation=on",
            ));
        }
        ("dram", preset) => ("dram.preset", preset),
        other => other,
    })
}

/// Applies one setting, such as `cache.l2.size=4MiB`.
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
    let (path, text) = shorthand(path.trim(), text.trim(), &place)?;
    let value = Value::read(text, path, &place);
    let mut at = root;
    for key in path.split('.') {
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

/// Returns the refusal of a name that is not in a list. It suggests the nearest name of the list.
pub(super) fn unknown(
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
