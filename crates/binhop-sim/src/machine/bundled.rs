//! `BUNDLED` lists the machines that come with binhop: the files under `machines/`.

/// `Bundled` is a machine that comes with binhop.
#[derive(Clone, Copy, Debug)]
pub struct Bundled {
    /// The name by which users load it.
    pub name: &'static str,
    /// A line of text that says what the machine is.
    pub about: &'static str,
    /// The description, in TOML.
    pub toml: &'static str,
}

macro_rules! bundled {
    ($($name:literal, $about:literal;)*) => {
        /// Every machine that comes with binhop: the files under `machines/`.
        pub const BUNDLED: &[Bundled] = &[$(Bundled {
            name: $name,
            about: $about,
            toml: include_str!(concat!("../../../../machines/", $name, ".toml")),
        },)*];
    };
}

bundled! {
    "kh90", "Kessler and Hill 1990: 128 MiB in 16 KiB pages, split 32 KiB level 1, 4 MiB level 2, random placement";
    "mb90-1a", "Mogul and Borg 1990, design 1a: a DECstation 5000/200, split 64 KiB level 1 with a write buffer, no level 2, random placement";
    "mb90-1b", "Mogul and Borg 1990, design 1b: design 1a with a level 1 of 256 + 256 KiB";
    "mb90-2a", "Mogul and Borg 1990, design 2a: split 2 KiB level 1 with a write buffer, 512 KiB level 2, random placement";
    "mb90-2b", "Mogul and Borg 1990, design 2b: design 2a with a level 1 of 8 + 8 KiB and a level 2 of 2 MiB";
    "jm97", "Jacob and Mudge 1997: virtual direct-mapped caches, split 8 KiB level 1 and split 512 KiB level 2, and a TLB of 64 entries, random placement";
    "softvm", "Jacob and Mudge 1997 without a TLB: the caches of jm97, and software that translates when the last level misses, random placement";
    "opteron", "The traced computer of Tang et al. 2010: an AMD Opteron, split 64 KiB level 1 and 1 MiB level 2, random placement";
    "tb10", "Tang et al. 2010: the caches of opteron, then a last level of 2 MiB and DDR2-666 memory, random placement";
    "two-level", "Split 32 KiB level 1 and 1 MiB level 2, direct-mapped, physical = virtual: what plain cache simulators model";
    "cachegrind-like", "What valgrind --tool=cachegrind simulates, counted as it counts: split 32 KiB 8-way level 1, 1 MiB 16-way last level, physical = virtual";
    "zen-4k", "A present-day core: 4 KiB pages, 32 + 48 KiB level 1, 1 MiB 16-way level 2, 16 MiB 16-way level 3, random placement";
    "apple-m1", "A present-day core with 16 KiB pages: 192 + 128 KiB level 1, 12 MiB 12-way level 2, random placement";
    "skylake", "A present-day core whose last level has a hashed index: 4 KiB pages, 256 KiB 4-way level 2, 8 MiB 16-way level 3, random placement";
    "cortex-a53", "A small core of today: 4 KiB pages, 32 + 32 KiB level 1, 512 KiB 16-way level 2, small TLBs, random placement";
}
