//! `keys!` declares a section of a machine file, with one line for each key.
//!
//! The line states the key's name, the form of its value, the value that holds when the key is absent, and
//! the key's meaning. Four things follow from the line: how the key is read from a file and from `--set`; how
//! a wrong value is refused, with value, place, rule and remedy; the key's row in docs/machine-file.md; and
//! the key's line in the resolved description.
//!
//! A section becomes a struct with a field for each key. The type of the field tells whether the key must be given:
//!
//! | field | key |
//! |---|---|
//! | `At<T>` | must be given |
//! | `Option<At<T>>` | may be left out; `absent` documents what holds then |
//! | `T` | may be left out; `absent` is the value that holds then, as a user writes it |
//!
//! `T` is a [`Form`]; each form is one type. The file that declares a section also checks the rules between its keys.

use binhop_base::{Problem, Result};

use super::document::{Located, Value, unknown};

/// `Key` describes a key of a machine file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The section: `""` for the top level, `"cache"` for every `[cache.NAME]`, ….
    pub section: &'static str,
    /// The name of the key in its section.
    pub name: &'static str,
    /// Returns the form of the value, in words.
    pub form: fn() -> String,
    /// The value that holds when the key is absent; empty if the key must be given.
    pub default: &'static str,
    /// The meaning of the key, in words.
    pub meaning: &'static str,
    /// The keys of the section that the key opens; empty for a key that holds a value.
    pub keys: &'static [Key],
}

impl Key {
    /// Returns the refusal of a value that has another form.
    pub(super) fn wrong_form(&self, located: &Located) -> Box<Problem> {
        let rule = format!("{} takes {}", self.name, (self.form)());
        Problem::request(&located.value.shown(), &located.place, &rule, "write it in that form")
    }

    /// Returns the refusal of a section, at `place`, that lacks this key.
    pub(super) fn missing(&self, place: &str) -> Box<Problem> {
        let Self { name, meaning, .. } = self;
        Problem::request(
            "missing",
            &format!("{place}: {name}"),
            &format!("{name} must be given: {meaning}"),
            &format!("add {name} = … ({})", (self.form)()),
        )
    }
}

/// `At` is a value with its place in the description.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: String,
}

impl<T> At<T> {
    /// Returns a value that the description does not state, because binhop derived it.
    pub(super) fn derived(value: T) -> Self {
        Self { value, place: String::new() }
    }
}

/// `Form` is a kind of value that keys hold: how it is read, documented and written.
pub(super) trait Form: Sized {
    /// The keys of the section, if the value is a section.
    const KEYS: &'static [Key] = &[];

    /// Returns the form in words, for documentation and refusals.
    fn form() -> String;

    /// Reads the value of `key`.
    fn read(located: Located, key: &Key) -> Result<Self>;

    /// Writes the key `name` with this value; for a section, the section under the header `name`.
    fn write(&self, name: &str, resolved: &mut Resolved<'_>);

    /// Takes out of a section what belongs to `key`, and reads it.
    fn take(section: &mut Section, key: &Key) -> Result<Option<At<Self>>> {
        let Some(located) = section.take(key.name) else { return Ok(None) };
        let place = located.place.clone();
        Ok(Some(At { value: Self::read(located, key)?, place }))
    }
}

/// `Field` is the type of a field in the struct of a section: see the table at the top of this file.
pub(super) trait Field: Sized {
    /// The form of the key's value.
    type Form: Form;

    /// Takes the key out of a section, or finds the value that holds when the key is absent.
    fn take(section: &mut Section, key: &Key) -> Result<Self>;

    /// Writes the key, if it has a value.
    fn write(&self, name: &str, resolved: &mut Resolved<'_>);
}

impl<T: Form> Field for At<T> {
    type Form = T;

    fn take(section: &mut Section, key: &Key) -> Result<Self> {
        T::take(section, key)?.ok_or_else(|| key.missing(&section.place))
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        self.value.write(name, resolved);
    }
}

impl<T: Form> Field for Option<At<T>> {
    type Form = T;

    fn take(section: &mut Section, key: &Key) -> Result<Self> {
        T::take(section, key)
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        if let Some(at) = self {
            at.value.write(name, resolved);
        }
    }
}

impl<T: Form> Field for T {
    type Form = T;

    fn take(section: &mut Section, key: &Key) -> Result<Self> {
        match T::take(section, key)? {
            Some(at) => Ok(at.value),
            None => T::read(Located { place: section.place.clone(), value: Value::typed(key.default) }, key),
        }
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        T::write(self, name, resolved);
    }
}

/// Declares a section: a struct with a field for each key, and the list of these keys. A line states the `form` where
/// the type of the value alone says too little.
macro_rules! keys {
    ($(#[$doc:meta])* $type:ident of $section:literal {
        $($field:ident: $kind:ty = $name:literal
            $(, form $form:literal)? $(, absent $absent:literal)?, $meaning:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(super) struct $type { $(#[doc = $meaning] pub(super) $field: $kind,)* }

        const _: () = {
            use $crate::machine::document::Located;
            use $crate::machine::keys::{Field, Form, Key, Resolved, Section, of_name};

            impl Form for $type {
                const KEYS: &'static [Key] = &[$(Key {
                    section: $section,
                    name: $name,
                    form: || {
                        let stated: &[&str] = &[$($form)?];
                        stated.first().map_or_else(<<$kind as Field>::Form as Form>::form, ToString::to_string)
                    },
                    default: concat!($($absent)?),
                    meaning: $meaning,
                    keys: <<$kind as Field>::Form as Form>::KEYS,
                },)*];

                fn form() -> String {
                    "a section".to_string()
                }

                fn read(located: Located, _: &Key) -> binhop_base::Result<Self> {
                    let mut section = Section::open($section, Self::KEYS, located)?;
                    let keys = Self { $($field: Field::take(&mut section, of_name(Self::KEYS, $name))?,)* };
                    section.finish()?;
                    Ok(keys)
                }

                fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
                    resolved.open(name);
                    $(if resolved.states(of_name(Self::KEYS, $name)) {
                        Field::write(&self.$field, $name, resolved);
                    })*
                }
            }
        };
    };
}
pub(super) use keys;

/// Returns the key of this name, which is in the list.
pub(super) fn of_name(keys: &'static [Key], name: &str) -> &'static Key {
    keys.iter().find(|key| key.name == name).expect("every field of a section is a key of its list")
}

/// `Section` is a section while it is read. Keys are taken out of it; a key that is left is unknown.
pub(super) struct Section {
    name: &'static str,
    keys: &'static [Key],
    place: String,
    entries: Vec<(String, Located)>,
}

impl Section {
    pub(super) fn open(name: &'static str, keys: &'static [Key], located: Located) -> Result<Self> {
        let Value::Table(entries) = located.value else {
            return Err(Problem::request(
                &located.value.shown(),
                &located.place,
                &format!("{name} is a section with keys of its own"),
                &format!("write it like {name} = {{ {} = … }}", keys.first().map_or("", |key| key.name)),
            ));
        };
        Ok(Self { name, keys, place: located.place, entries })
    }

    fn take(&mut self, name: &str) -> Option<Located> {
        let index = self.entries.iter().position(|(key, _)| key == name)?;
        Some(self.entries.remove(index).1)
    }

    /// Takes out all entries that are left, in order: their names are the user's choice.
    pub(super) fn take_rest(&mut self) -> Vec<(String, Located)> {
        std::mem::take(&mut self.entries)
    }

    /// Refuses every key that is left, because an unknown key is a typing error.
    pub(super) fn finish(self) -> Result<()> {
        let Some((name, located)) = self.entries.first() else { return Ok(()) };
        let what = if self.name.is_empty() { "a machine" } else { self.name };
        let rule = format!("{what} has no key {name}; its keys are");
        Err(unknown(name, &located.place, &rule, self.keys.iter().map(|key| key.name)))
    }
}

/// `Resolved` is a resolved description while it is written.
pub(super) struct Resolved<'a> {
    text: String,
    states: &'a dyn Fn(&Key) -> bool,
}

impl<'a> Resolved<'a> {
    /// Returns the description that states the keys of `keys` for which `states` is true.
    pub(super) fn text(keys: &impl Form, states: &'a dyn Fn(&Key) -> bool) -> String {
        let mut resolved = Self { text: String::new(), states };
        keys.write("", &mut resolved);
        resolved.text
    }

    pub(super) fn states(&self, key: &Key) -> bool {
        (self.states)(key)
    }

    /// Begins a section; the top level has no header.
    pub(super) fn open(&mut self, header: &str) {
        if !header.is_empty() {
            self.text += &format!("\n[{header}]\n");
        }
    }

    /// Writes a key and its value, in TOML.
    pub(super) fn line(&mut self, name: &str, value: &str) {
        self.text += &format!("{name} = {value}\n");
    }
}
