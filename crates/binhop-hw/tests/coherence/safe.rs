//! `SAFE` lists the mutants of the tables that break no property, with what they cost instead.

/// `Safe` is a list of mutants that are safe for the same reasons.
pub struct Safe {
    /// The tables in which each of the changes is safe.
    pub tables: &'static [&'static str],
    pub reasons: &'static [&'static str],
    /// The changes: the state, the event, and the new value of the entry.
    pub changes: &'static [&'static str],
}

const UNREACHED: &str = "the event cannot come in this state, so the entry is never used";
const NOT_RETURNED: &str = "no line is returned to a cache of a processor, so the entry is never used";
const LEAVES: &str = "the copy leaves early, or does not come: this costs a miss";
const WRITES: &str = "memory is written without need: this costs a write";
const FETCHES: &str = "the cache asks for data that it holds: this costs a request";
const OTHERS_SUPPLY: &str = "memory or another cache supplies the same data";
const DIRTY: &str = "the line counts as dirty, and memory has its data: this costs a write-back";
const ALONE: &str = "the cache does not note that it holds the only copy: its next write costs a request";

const ALL: &[&str] = &["MOESI", "ESI", "IO-MOESI", "IO-ESI"];
const WITH_OWNERS: &[&str] = &["MOESI", "IO-MOESI"];
const WITHOUT_OWNERS: &[&str] = &["ESI", "IO-ESI"];
const OF_PROCESSORS: &[&str] = &["MOESI", "ESI"];
const OF_DMA: &[&str] = &["IO-MOESI", "IO-ESI"];

pub const SAFE: &[Safe] = &[
    Safe {
        tables: ALL,
        reasons: &[WRITES],
        changes: &[
            "Exclusive Clean -> Exclusive WriteBack",
            "Exclusive Replace -> Invalid WriteBack",
            "Shared Clean -> Shared WriteBack",
            "Shared Replace -> Invalid WriteBack",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[WRITES],
        changes: &[
            "Exclusive LocalWrite -> Exclusive WriteThrough",
            "Invalid LocalWrite -> Exclusive WriteThrough",
            "Modified LocalWrite -> Exclusive WriteThrough",
            "Owned LocalWrite -> Exclusive WriteThrough",
            "Shared LocalWrite -> Exclusive WriteThrough",
        ],
    },
    Safe {
        tables: ALL,
        reasons: &[LEAVES],
        changes: &[
            "Exclusive Clean -> Invalid Nothing",
            "Exclusive LocalReadAlone -> Invalid Nothing",
            "Exclusive ProbeRead -> Invalid Supply",
            "Invalid LocalReadAlone -> Invalid Fill",
            "Invalid LocalReadShared -> Invalid Fill",
            "Shared Clean -> Invalid Nothing",
            "Shared LocalReadAlone -> Invalid Nothing",
            "Shared LocalReadShared -> Invalid Nothing",
            "Shared ProbeRead -> Invalid Supply",
        ],
    },
    Safe {
        tables: WITHOUT_OWNERS,
        reasons: &[LEAVES],
        changes: &[
            "Exclusive LocalWrite -> Invalid WriteThrough",
            "Invalid LocalWrite -> Invalid WriteThrough",
            "Shared LocalWrite -> Invalid WriteThrough",
        ],
    },
    Safe {
        tables: OF_DMA,
        reasons: &[LEAVES],
        changes: &[
            "Invalid Return -> Invalid Fill",
            "Invalid Return -> Invalid Nothing",
            "Shared Return -> Invalid Nothing",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[LEAVES],
        changes: &["Modified Clean -> Invalid WriteBack", "Owned Clean -> Invalid WriteBack"],
    },
    Safe {
        tables: ALL,
        reasons: &[WRITES, LEAVES],
        changes: &["Exclusive Clean -> Invalid WriteBack", "Shared Clean -> Invalid WriteBack"],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[WRITES, LEAVES],
        changes: &[
            "Exclusive LocalWrite -> Invalid WriteThrough",
            "Invalid LocalWrite -> Invalid WriteThrough",
            "Modified LocalWrite -> Invalid WriteThrough",
            "Owned LocalWrite -> Invalid WriteThrough",
            "Shared LocalWrite -> Invalid WriteThrough",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[DIRTY],
        changes: &[
            "Exclusive Clean -> Modified Nothing",
            "Exclusive LocalReadAlone -> Modified Nothing",
            "Exclusive ProbeRead -> Owned Supply",
            "Invalid LocalReadAlone -> Modified Fill",
            "Modified Clean -> Modified WriteBack",
            "Owned Clean -> Owned WriteBack",
            "Shared LocalReadAlone -> Owned Nothing",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[WRITES, DIRTY],
        changes: &[
            "Exclusive Clean -> Modified WriteBack",
            "Exclusive LocalWrite -> Modified WriteThrough",
            "Invalid LocalWrite -> Modified WriteThrough",
            "Modified LocalWrite -> Modified WriteThrough",
            "Owned LocalWrite -> Modified WriteThrough",
            "Shared LocalWrite -> Modified WriteThrough",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[DIRTY, ALONE],
        changes: &[
            "Exclusive Clean -> Owned Nothing",
            "Exclusive LocalReadAlone -> Owned Nothing",
            "Invalid LocalReadAlone -> Owned Fill",
            "Modified Clean -> Owned WriteBack",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[WRITES, DIRTY, ALONE],
        changes: &[
            "Exclusive Clean -> Owned WriteBack",
            "Exclusive LocalWrite -> Owned WriteThrough",
            "Invalid LocalWrite -> Owned WriteThrough",
            "Modified LocalWrite -> Owned WriteThrough",
            "Owned LocalWrite -> Owned WriteThrough",
            "Shared LocalWrite -> Owned WriteThrough",
        ],
    },
    Safe {
        tables: ALL,
        reasons: &[ALONE],
        changes: &[
            "Exclusive Clean -> Shared Nothing",
            "Exclusive LocalReadAlone -> Shared Nothing",
            "Invalid LocalReadAlone -> Shared Fill",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[ALONE],
        changes: &[
            "Exclusive LocalWrite -> Owned Nothing",
            "Invalid LocalWrite -> Owned Fill",
            "Modified Clean -> Shared WriteBack",
            "Modified LocalReadAlone -> Owned Nothing",
            "Modified LocalWrite -> Owned Nothing",
            "Owned LocalWrite -> Owned Nothing",
            "Shared LocalWrite -> Owned Nothing",
        ],
    },
    Safe {
        tables: WITHOUT_OWNERS,
        reasons: &[ALONE],
        changes: &[
            "Exclusive LocalWrite -> Shared WriteThrough",
            "Invalid LocalWrite -> Shared WriteThrough",
            "Shared LocalWrite -> Shared WriteThrough",
        ],
    },
    Safe { tables: ALL, reasons: &[WRITES, ALONE], changes: &["Exclusive Clean -> Shared WriteBack"] },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[WRITES, ALONE],
        changes: &[
            "Exclusive LocalWrite -> Shared WriteThrough",
            "Invalid LocalWrite -> Shared WriteThrough",
            "Modified LocalWrite -> Shared WriteThrough",
            "Owned LocalWrite -> Shared WriteThrough",
            "Shared LocalWrite -> Shared WriteThrough",
        ],
    },
    Safe {
        tables: ALL,
        reasons: &[FETCHES],
        changes: &[
            "Exclusive LocalReadAlone -> Exclusive Fill",
            "Shared LocalReadAlone -> Exclusive Fill",
            "Shared LocalReadAlone -> Shared Fill",
            "Shared LocalReadShared -> Shared Fill",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[FETCHES],
        changes: &[
            "Exclusive LocalWrite -> Modified Fill",
            "Owned LocalReadShared -> Owned Fill",
            "Shared LocalWrite -> Modified Fill",
        ],
    },
    Safe { tables: &["IO-MOESI"], reasons: &[FETCHES], changes: &["Owned Return -> Owned Fill"] },
    Safe { tables: OF_DMA, reasons: &[FETCHES], changes: &["Shared Return -> Shared Fill"] },
    Safe {
        tables: ALL,
        reasons: &[FETCHES, LEAVES],
        changes: &[
            "Exclusive LocalReadAlone -> Invalid Fill",
            "Shared LocalReadAlone -> Invalid Fill",
            "Shared LocalReadShared -> Invalid Fill",
        ],
    },
    Safe { tables: OF_DMA, reasons: &[FETCHES, LEAVES], changes: &["Shared Return -> Invalid Fill"] },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[FETCHES, DIRTY],
        changes: &[
            "Exclusive LocalReadAlone -> Modified Fill",
            "Shared LocalReadAlone -> Modified Fill",
            "Shared LocalReadAlone -> Owned Fill",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[FETCHES, DIRTY, ALONE],
        changes: &["Exclusive LocalReadAlone -> Owned Fill"],
    },
    Safe { tables: ALL, reasons: &[FETCHES, ALONE], changes: &["Exclusive LocalReadAlone -> Shared Fill"] },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[FETCHES, ALONE],
        changes: &["Exclusive LocalWrite -> Owned Fill", "Shared LocalWrite -> Owned Fill"],
    },
    Safe {
        tables: ALL,
        reasons: &[UNREACHED],
        changes: &[
            "Exclusive LocalReadShared -> Exclusive Fill",
            "Exclusive LocalReadShared -> Exclusive Nothing",
            "Exclusive LocalReadShared -> Invalid Fill",
            "Exclusive LocalReadShared -> Invalid Nothing",
            "Exclusive LocalReadShared -> Shared Fill",
            "Exclusive LocalReadShared -> Shared Nothing",
            "Exclusive Return -> Exclusive Fill",
            "Exclusive Return -> Exclusive Nothing",
            "Exclusive Return -> Invalid Fill",
            "Exclusive Return -> Invalid Nothing",
            "Exclusive Return -> Shared Fill",
            "Exclusive Return -> Shared Nothing",
        ],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[UNREACHED],
        changes: &[
            "Exclusive LocalReadShared -> Modified Fill",
            "Exclusive LocalReadShared -> Modified Nothing",
            "Exclusive LocalReadShared -> Owned Fill",
            "Exclusive LocalReadShared -> Owned Nothing",
            "Exclusive Return -> Modified Fill",
            "Exclusive Return -> Modified Nothing",
            "Exclusive Return -> Owned Fill",
            "Exclusive Return -> Owned Nothing",
            "Modified LocalReadShared -> Exclusive Fill",
            "Modified LocalReadShared -> Exclusive Nothing",
            "Modified LocalReadShared -> Invalid Fill",
            "Modified LocalReadShared -> Invalid Nothing",
            "Modified LocalReadShared -> Modified Fill",
            "Modified LocalReadShared -> Modified Nothing",
            "Modified LocalReadShared -> Owned Fill",
            "Modified LocalReadShared -> Owned Nothing",
            "Modified LocalReadShared -> Shared Fill",
            "Modified LocalReadShared -> Shared Nothing",
            "Modified Return -> Exclusive Fill",
            "Modified Return -> Exclusive Nothing",
            "Modified Return -> Invalid Fill",
            "Modified Return -> Invalid Nothing",
            "Modified Return -> Modified Fill",
            "Modified Return -> Modified Nothing",
            "Modified Return -> Owned Fill",
            "Modified Return -> Owned Nothing",
            "Modified Return -> Shared Fill",
            "Modified Return -> Shared Nothing",
        ],
    },
    Safe {
        tables: ALL,
        reasons: &[OTHERS_SUPPLY, LEAVES],
        changes: &["Exclusive ProbeRead -> Invalid Nothing", "Shared ProbeRead -> Invalid Nothing"],
    },
    Safe {
        tables: WITH_OWNERS,
        reasons: &[OTHERS_SUPPLY, DIRTY],
        changes: &["Exclusive ProbeRead -> Owned Nothing"],
    },
    Safe {
        tables: ALL,
        reasons: &[OTHERS_SUPPLY],
        changes: &[
            "Exclusive ProbeRead -> Shared Nothing",
            "Exclusive ProbeWrite -> Invalid Nothing",
            "Shared ProbeRead -> Shared Nothing",
            "Shared ProbeWrite -> Invalid Nothing",
        ],
    },
    Safe {
        tables: OF_PROCESSORS,
        reasons: &[NOT_RETURNED],
        changes: &[
            "Invalid Return -> Exclusive Fill",
            "Invalid Return -> Exclusive Nothing",
            "Invalid Return -> Invalid Fill",
            "Invalid Return -> Invalid Nothing",
            "Invalid Return -> Shared Nothing",
            "Shared Return -> Exclusive Fill",
            "Shared Return -> Exclusive Nothing",
            "Shared Return -> Invalid Fill",
            "Shared Return -> Invalid Nothing",
            "Shared Return -> Shared Fill",
        ],
    },
    Safe {
        tables: &["MOESI"],
        reasons: &[NOT_RETURNED],
        changes: &[
            "Invalid Return -> Modified Fill",
            "Invalid Return -> Modified Nothing",
            "Invalid Return -> Owned Fill",
            "Invalid Return -> Owned Nothing",
            "Owned Return -> Exclusive Fill",
            "Owned Return -> Exclusive Nothing",
            "Owned Return -> Invalid Fill",
            "Owned Return -> Invalid Nothing",
            "Owned Return -> Modified Fill",
            "Owned Return -> Modified Nothing",
            "Owned Return -> Owned Fill",
            "Owned Return -> Shared Fill",
            "Owned Return -> Shared Nothing",
            "Shared Return -> Modified Fill",
            "Shared Return -> Modified Nothing",
            "Shared Return -> Owned Fill",
            "Shared Return -> Owned Nothing",
        ],
    },
];
