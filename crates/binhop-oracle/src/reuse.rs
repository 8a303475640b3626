//! `NaiveStack` keeps the units in a list, and searches it from the unit touched last.

/// `NaiveStack` is a list of units, the unit touched last first.
#[derive(Clone, Debug, Default)]
pub struct NaiveStack(Vec<u64>);

impl NaiveStack {
    /// Touches a unit, and returns how many units stood before it in the list; `None` if the list did not hold the
    /// unit.
    pub fn touch(&mut self, unit: u64) -> Option<u64> {
        let place = self.0.iter().position(|&other| other == unit);
        if let Some(place) = place {
            self.0.remove(place);
        }
        self.0.insert(0, unit);
        place.map(|place| place as u64)
    }
}
