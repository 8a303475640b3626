//! `check_table` refuses a protocol with a hole: a state that the protocol reaches, and an event without a transition.

use binhop_base::{Problem, Result};

use super::{LineAction, LineEvent, LineState, TransitionTable, transition};

impl LineState {
    /// Returns whether the state excludes copies in other caches.
    #[must_use]
    pub const fn excludes_copies(self) -> bool {
        matches!(self, Self::Exclusive | Self::Modified)
    }
}

impl LineEvent {
    /// The actions that a cache may do for the event, besides [`LineAction::Never`].
    #[must_use]
    pub const fn actions(self) -> &'static [LineAction] {
        use LineAction::{Fill, Nothing, Supply, WriteBack, WriteThrough};
        match self {
            Self::LocalReadAlone | Self::LocalReadShared | Self::Return => &[Nothing, Fill],
            Self::LocalWrite => &[Nothing, Fill, WriteThrough],
            Self::ProbeRead | Self::ProbeWrite => &[Nothing, Supply],
            Self::Clean | Self::Replace => &[Nothing, WriteBack],
        }
    }

    /// Returns whether the event can come while the cache holds the line in a state. Another cache that holds a copy,
    /// too, or gives one up, is impossible where the state excludes other copies.
    #[must_use]
    pub const fn can_come_in(self, state: LineState) -> bool {
        !(state.excludes_copies() && matches!(self, Self::LocalReadShared | Self::Return))
    }
}

/// Returns the states that a table reaches from [`LineState::Invalid`].
#[must_use]
pub fn reached_states(table: &TransitionTable) -> Vec<LineState> {
    let mut reached = vec![LineState::Invalid];
    let mut at = 0;
    while let Some(&state) = reached.get(at) {
        for &event in LineEvent::ALL {
            let entry = transition(table, state, event);
            if entry.action != LineAction::Never && !reached.contains(&entry.next) {
                reached.push(entry.next);
            }
        }
        at += 1;
    }
    reached.sort_unstable();
    reached
}

/// Checks a table.
///
/// # Errors
/// The table reaches a state in which an event can come that has no transition, or whose action the event does not
/// have. The problem names the state and the event.
pub fn check_table(name: &str, table: &TransitionTable) -> Result<()> {
    for state in reached_states(table) {
        for &event in LineEvent::ALL.iter().filter(|event| event.can_come_in(state)) {
            let action = transition(table, state, event).action;
            if event.actions().contains(&action) {
                continue;
            }
            let rule = if action == LineAction::Never {
                "each event that can come in a state that the protocol reaches needs a transition"
            } else {
                "the action of a transition must be one that its event has"
            };
            let actions: Vec<_> = event.actions().iter().map(|action| format!("{action:?}")).collect();
            return Err(Problem::request(
                &format!("{action:?}"),
                &format!("table {name}: state {state:?}, event {event:?}"),
                rule,
                &format!("write an entry whose action is {}", actions.join(" or ")),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PROTOCOLS, Transition};

    #[test]
    fn the_tables_have_no_hole() {
        for &(name, table) in PROTOCOLS {
            check_table(name, table).unwrap();
        }
        assert_eq!(reached_states(PROTOCOLS[0].1), LineState::ALL);
        assert_eq!(reached_states(PROTOCOLS[1].1), &LineState::ALL[..3]);
    }

    #[test]
    fn each_hole_is_refused_with_its_state_and_event() {
        let mut holes = 0;
        for &(name, table) in PROTOCOLS {
            for state in reached_states(table) {
                for &event in LineEvent::ALL {
                    let mut holed = *table;
                    holed[state as usize][event as usize] =
                        Transition { next: LineState::Invalid, action: LineAction::Never };
                    if !reached_states(&holed).contains(&state) {
                        continue;
                    }
                    let checked = check_table(name, &holed);
                    if event.can_come_in(state) {
                        holes += 1;
                        let problem = checked.unwrap_err();
                        let place = format!("table {name}: state {state:?}, event {event:?}");
                        assert_eq!((problem.value.as_str(), problem.place), ("Never", place));
                    } else {
                        checked.unwrap();
                    }
                }
            }
        }
        // MOESI: 5 states of 8 events, less 2 events in each of E and M. ESI: 3 states of 8 events, less 2 events in E.
        assert_eq!(holes, 2 * (5 * 8 - 4) + 2 * (3 * 8 - 2));
    }

    #[test]
    fn an_action_of_another_event_is_refused() {
        let mut table = crate::MOESI;
        table[LineState::Shared as usize][LineEvent::ProbeRead as usize].action = LineAction::WriteBack;
        let problem = check_table("mine", &table).unwrap_err();
        assert_eq!(problem.place, "table mine: state Shared, event ProbeRead");
        assert!(problem.remedy.ends_with("Nothing or Supply"), "{problem}");
    }
}
