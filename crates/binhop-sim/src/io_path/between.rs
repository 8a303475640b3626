//! `between` serves calls that move bytes between two objects: `copy_file_range`, `sendfile`, `splice`, `tee`.

use std::collections::BTreeMap;

use binhop_os::io::{IoPath, IoStep, QueueId};

use super::calls::{Call, Moves, Object};
use super::file_numbers::FileNumbers;

/// Lets the path serve a call between two objects. Bytes that leave a pipe for an object without data on the path, or
/// for an unknown place, are removed from the pipe, too. Returns false if the trace does not say enough, or if the path
/// does not know such a call.
pub(super) fn between(
    path: &mut IoPath,
    (objects, numbers): (&BTreeMap<u64, Object>, &FileNumbers),
    call: &Call,
    emit: &mut dyn FnMut(IoStep),
) -> bool {
    let kind = |id: Option<u64>| id.and_then(|id| Some((id, *objects.get(&id)?)));
    // A call that moved nothing has no target. `Call::is_unknown` counts a call of which nothing is known.
    let Some(target) = call.target else { return true };
    let bytes = target.bytes;
    let source = kind(call.object);
    let drains = matches!(source, Some((_, Object::Pipe))) && call.moves != Moves::Tee;
    let drain = |path: &mut IoPath| {
        if let (Some((from, _)), true) = (source, drains) {
            path.drain_pipe(QueueId(from), bytes);
        }
    };
    let ends = |start: u64| start.checked_add(bytes).is_none_or(|end| end > IoPath::LARGEST);
    if call.offset.is_some_and(ends) || target.offset.is_some_and(ends) {
        drain(path);
        return false;
    }
    let (Some((from, from_kind)), Some((to, to_kind))) = (source, kind(target.object)) else {
        drain(path);
        return false;
    };
    let (from_queue, to_queue) = (QueueId(from), QueueId(to));
    match (from_kind, call.offset, to_kind, target.offset) {
        (Object::Other, ..) | (_, _, Object::Other, _) => drain(path),
        (Object::File, Some(at), Object::File, Some(to_at)) => {
            path.copy_file((numbers.file(from), at), (numbers.file(to), to_at), bytes, emit);
        }
        (Object::File, Some(at), Object::Socket, _) => path.send_file(numbers.file(from), at, bytes, emit),
        (Object::File, Some(at), Object::Pipe, _) => {
            path.splice_from_file((numbers.file(from), at), to_queue, bytes, emit);
        }
        (Object::Pipe, _, Object::File, Some(to_at)) => {
            path.splice_to_file(from_queue, (numbers.file(to), to_at), bytes, emit);
        }
        (Object::Pipe, _, Object::Pipe, _) if call.moves == Moves::Tee => {
            path.tee(from_queue, to_queue, bytes);
        }
        (Object::Pipe, _, Object::Pipe, _) => {
            path.splice_pipes(from_queue, to_queue, bytes);
        }
        (Object::Pipe, _, Object::Socket, _) => {
            path.splice_to_socket(from_queue, bytes, emit);
        }
        (Object::Socket, _, Object::Pipe, _) => {
            path.splice_from_socket(from_queue, to_queue, bytes, emit);
        }
        _ => {
            drain(path);
            return false;
        }
    }
    true
}
