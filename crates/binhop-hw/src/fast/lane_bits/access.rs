//! `BitsAccess` is an access that all lanes make, and `By` says who makes it.

use binhop_base::{Agent, Kind, PageId};

use crate::Request;

/// `By` says who makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The user.
    User,
    /// The user, after a walk. The level that serves the access is counted.
    UserAfterWalk,
    /// The agent other than the user.
    Agent,
}

impl By {
    /// Returns the place of the agent among the counts: 0 for the user.
    #[inline(always)]
    pub(super) const fn agent(self) -> usize {
        matches!(self, Self::Agent) as usize
    }
}

/// `BitsAccess` is an access of every lane to a line of a page, at the cache of level 1 that serves its kind. Behind a
/// shared front, it is a request of the first cache of each back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitsAccess {
    /// The page.
    pub page: PageId,
    /// The line of the page, in lines of the cache that is asked.
    pub line: u32,
    /// The kind.
    pub kind: Kind,
    /// The agent.
    pub by: By,
    /// True if the data of a request is smaller than the line.
    pub is_part: bool,
}

impl BitsAccess {
    /// Returns the request of a shared front as an access.
    #[inline]
    #[must_use]
    pub fn of_request(request: &Request) -> Self {
        let by = if request.origin.is_after_walk() {
            By::UserAfterWalk
        } else if request.origin.agent() == Agent::User {
            By::User
        } else {
            By::Agent
        };
        let is_part = request.data != request.origin.unit();
        Self { page: PageId(request.at.id), line: request.at.line, kind: request.kind, by, is_part }
    }
}
