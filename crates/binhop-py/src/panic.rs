//! These functions turn panics into problems: an assertion that fails is an error of binhop, and is reported like any
//! other problem.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::{Mutex, PoisonError};

use binhop_base::{Problem, Result};

/// The place and the reason of the last panic. The hook runs on the thread that panics, which may be a
/// worker.
static LAST: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Keeps panics off standard error. With `BINHOP_TRACEBACK` they are printed as usual, for binhop's
/// developers.
pub(crate) fn install() {
    let usual = std::panic::take_hook();
    set_hook(Box::new(move |info| {
        let place = info.location().map_or_else(String::new, ToString::to_string);
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no message").to_string();
        LAST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((message, place));
        if std::env::var_os("BINHOP_TRACEBACK").is_some() {
            usual(info);
        }
    }));
}

/// Runs work of a library that panics at wrong input. Returns `None` if the library panics.
pub(crate) fn unless_it_panics<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).inspect_err(|_| drop(last())).ok()
}

fn last() -> (String, String) {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

/// Runs work. A panic becomes a problem of the run.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let (message, place) = last();
        let rule = "this must never happen: it is an error of binhop itself";
        Err(Problem::run(&message, &place, rule, "please report it, with the command and the trace"))
    })
}
