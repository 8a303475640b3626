//! `Heap` is a Lisp heap on instrumented memory, with bump allocation and Cheney's copying collector.
//!
//! Objects are four words: a header, then three fields. A node of a tree is [key, left, right]; a key is a
//! boxed floating-point number [low half, high half, unused]. Addresses in fields are word numbers in the
//! heap; 0 is the empty list. Allocation moves through one of two semispaces until the
//! semispace is full.

use crate::cpu::Cpu;

/// The words of an object.
pub(crate) const OBJECT: u32 = 4;
const NODE: u32 = 1;
const FLOAT: u32 = 2;
const FORWARD: u32 = 1 << 31;

/// `HeapCode` holds the code addresses of the run-time system: allocation and the collector.
#[derive(Clone, Copy)]
pub(crate) struct HeapCode {
    pub(crate) allocate: u64,
    pub(crate) collect: u64,
}

/// `Heap` is a Lisp heap of two semispaces.
pub(crate) struct Heap {
    words: Vec<u32>,
    /// Address of word 0.
    base: u64,
    half: u32,
    /// The start of the semispace in use, and the place of the next allocation.
    space: u32,
    free: u32,
    scan: u32,
    code: HeapCode,
}

impl Heap {
    /// Makes a heap of two semispaces of `half` bytes each.
    pub(crate) fn new(cpu: &mut Cpu, half: u64, code: HeapCode) -> Self {
        let base = cpu.sbrk(2 * half);
        let half = (half / 4) as u32;
        Self { words: vec![0; 2 * half as usize], base, half, space: 0, free: OBJECT, scan: 0, code }
    }

    /// Returns the bytes that can be allocated before a collection.
    pub(crate) fn room(&self) -> u64 {
        4 * u64::from(self.space + self.half - self.free)
    }

    #[inline(always)]
    fn address(&self, word: u32) -> u64 {
        self.base + 4 * u64::from(word)
    }

    #[inline(always)]
    fn allocate(&mut self, cpu: &mut Cpu, kind: u32, fields: [u32; 3]) -> u32 {
        let object = self.free;
        self.free += OBJECT;
        assert!(self.free <= self.space + self.half, "the heap is full: the program must collect before");
        cpu.call(self.code.allocate, 1, 0);
        cpu.run(9);
        cpu.store(self.address(object), 4);
        self.words[object as usize] = kind;
        for (at, field) in fields.into_iter().enumerate() {
            cpu.run(2);
            cpu.store(self.address(object) + 4 + 4 * at as u64, 4);
            self.words[object as usize + 1 + at] = field;
        }
        cpu.run(6);
        cpu.ret(1, 0);
        object
    }

    pub(crate) fn float(&mut self, cpu: &mut Cpu, value: f64) -> u32 {
        let bits = value.to_bits();
        self.allocate(cpu, FLOAT, [bits as u32, (bits >> 32) as u32, 0])
    }

    pub(crate) fn node(&mut self, cpu: &mut Cpu, key: u32, left: u32, right: u32) -> u32 {
        self.allocate(cpu, NODE, [key, left, right])
    }

    /// Loads field `which` of a node (0 key, 1 left, 2 right).
    #[inline(always)]
    pub(crate) fn field(&self, cpu: &mut Cpu, node: u32, which: u32) -> u32 {
        cpu.load(self.address(node + 1 + which), 4);
        self.words[(node + 1 + which) as usize]
    }

    /// Checks an object's type, as compiled Scheme does before it uses a field.
    #[inline(always)]
    pub(crate) fn check(&self, cpu: &mut Cpu, object: u32) {
        cpu.load(self.address(object), 4);
        cpu.run(3);
    }

    /// Loads the value of a boxed number.
    #[inline(always)]
    pub(crate) fn value(&self, cpu: &mut Cpu, float: u32) -> f64 {
        cpu.load(self.address(float) + 4, 4);
        cpu.run(1);
        cpu.load(self.address(float) + 8, 4);
        let at = float as usize;
        f64::from_bits(u64::from(self.words[at + 2]) << 32 | u64::from(self.words[at + 1]))
    }

    /// Begins a collection: copies the roots into the other semispace.
    pub(crate) fn begin_collection(&mut self, cpu: &mut Cpu, roots: &mut [u32], table: u64) {
        self.space = if self.space == 0 { self.half } else { 0 };
        self.free = self.space + OBJECT;
        self.scan = self.free;
        for (at, root) in roots.iter_mut().enumerate() {
            cpu.jump(self.code.collect);
            cpu.run(5);
            cpu.load(table + 4 * at as u64, 4);
            *root = self.copy(cpu, *root);
            cpu.store(table + 4 * at as u64, 4);
        }
    }

    /// Returns the new place of an object of the old semispace. Copies the object if it was not copied yet.
    fn copy(&mut self, cpu: &mut Cpu, object: u32) -> u32 {
        if object == 0 {
            return 0;
        }
        cpu.jump(self.code.collect + 0x100);
        cpu.run(4);
        cpu.load(self.address(object), 4);
        cpu.run(4);
        let header = self.words[object as usize];
        if header & FORWARD != 0 {
            return header & !FORWARD;
        }
        let to = self.free;
        self.free += OBJECT;
        for word in 0..OBJECT {
            if word > 0 {
                cpu.load(self.address(object + word), 4);
            }
            cpu.run(1);
            cpu.store(self.address(to + word), 4);
            self.words[(to + word) as usize] = self.words[(object + word) as usize];
        }
        cpu.run(3);
        cpu.store(self.address(object), 4);
        self.words[object as usize] = FORWARD | to;
        to
    }

    /// Scans up to `objects` objects of the new semispace. Returns true if no object is left.
    pub(crate) fn collect(&mut self, cpu: &mut Cpu, objects: u32) -> bool {
        for _ in 0..objects {
            if self.scan == self.free {
                return true;
            }
            cpu.jump(self.code.collect + 0x40);
            cpu.run(5);
            cpu.load(self.address(self.scan), 4);
            cpu.run(4);
            if self.words[self.scan as usize] == NODE {
                for field in 1..OBJECT {
                    cpu.jump(self.code.collect + 0x60);
                    cpu.run(3);
                    cpu.load(self.address(self.scan + field), 4);
                    let moved = self.copy(cpu, self.words[(self.scan + field) as usize]);
                    self.words[(self.scan + field) as usize] = moved;
                    cpu.run(2);
                    cpu.store(self.address(self.scan + field), 4);
                }
            }
            self.scan += OBJECT;
        }
        false
    }

    #[cfg(test)]
    pub(crate) fn peek(&self, node: u32) -> (f64, u32, u32) {
        let at = node as usize;
        let key = self.words[at + 1] as usize;
        let value = f64::from_bits(u64::from(self.words[key + 2]) << 32 | u64::from(self.words[key + 1]));
        (value, self.words[at + 2], self.words[at + 3])
    }
}
