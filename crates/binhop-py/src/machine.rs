//! `PyMachine` is a machine as Python sees it. A machine is checked when it is made, and never changes
//! afterwards.

use binhop_sim::Machine;
use pyo3::prelude::*;

use crate::problem::OrRaise;

/// A machine has memory, placement, caches and costs. It is checked when it is made, and it never changes.
#[pyclass(frozen, name = "Machine", module = "binhop._binhop")]
pub(crate) struct PyMachine(pub(crate) Machine);

#[pymethods]
impl PyMachine {
    /// Loads a bundled machine by name, or a TOML file by its path. `settings` change keys, as in
    /// "cache.l2.size=4MiB".
    #[staticmethod]
    #[pyo3(signature = (name_or_path, settings=Vec::new()))]
    fn load(py: Python<'_>, name_or_path: &str, settings: Vec<String>) -> PyResult<Self> {
        py.detach(|| Machine::load(name_or_path, &settings)).map(Self).or_raise(py)
    }

    /// Makes a machine from TOML text. `place` is the name of the text in errors.
    #[staticmethod]
    #[pyo3(signature = (toml, place="machine", settings=Vec::new()))]
    fn parse(py: Python<'_>, toml: &str, place: &str, settings: Vec<String>) -> PyResult<Self> {
        py.detach(|| Machine::parse(toml, place, &settings)).map(Self).or_raise(py)
    }

    /// Returns the same machine with other settings.
    #[pyo3(signature = (*settings))]
    fn with_settings(&self, py: Python<'_>, settings: Vec<String>) -> PyResult<Self> {
        py.detach(|| Machine::parse(&self.0.resolved(), self.0.name(), &settings)).map(Self).or_raise(py)
    }

    /// Returns the name under which results show the machine.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Notes for the reader, such as keys that the chosen policy does not use.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes().to_vec()
    }

    /// Returns whether the seed changes anything.
    #[getter]
    fn is_random(&self) -> bool {
        self.0.is_random()
    }

    /// Returns the caches, in the order of the description.
    #[getter]
    fn caches(&self) -> Vec<String> {
        self.0.tree().config().caches.iter().map(|cache| cache.name.clone()).collect()
    }

    /// Returns the last cache before memory. If several caches stand before memory, this is the largest of these
    /// caches.
    #[getter]
    fn last_level(&self) -> &str {
        &self.0.tree().config().caches[self.0.last_level()].name
    }

    /// Returns the file of the placement that the machine repeats, if it repeats one.
    #[getter]
    fn placement_file(&self) -> Option<&str> {
        self.0.placement().file.as_deref()
    }

    /// Returns whether a scheme for device data of the other machine can stand behind the front of this machine, so
    /// that one pass serves both.
    fn shares_front(&self, other: &Self) -> bool {
        self.0.check_same_front(&other.0).is_ok()
    }

    /// Returns the complete description as TOML, with its defaults.
    fn resolved(&self) -> String {
        self.0.resolved()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0.resolved() == other.0.resolved()
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.0.resolved().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let caches = self.caches().join(", ");
        format!("<Machine {}: {caches}; placement {}>", self.0.name(), self.0.placement().policy)
    }
}
