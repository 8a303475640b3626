//! `Ccom` is the C compiler: it enters headers in a symbol table, and takes functions through lexer, parser and code
//! generator.
//!
//! It lexes every character, parses into a tree (precedence climbing), and walks the tree to generate code.
//! Every kind of node has cases of its own for its operands, which makes a compiler large. The generated code
//! (`generate.rs`) runs on a stack machine in the tests. The process has 0.6 to 1 MB: text 448 KB, symbols
//! and trees 200 to 400 KB. A file takes 2 to 20 million instructions.

mod generate;

use super::libc::{CLASSES, Libc, waits};
use super::source::{Author, Token, hash, token};
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};
use generate::Instruction;

pub(crate) const IMAGE: Image =
    Image { name: "ccom", segment: 16, text: 448 << 10, data: 96 << 10, initialised: 32 << 10 };

const LEX: u64 = TEXT + 0x1000;
const LOOKUP: u64 = TEXT + 0x2000;
const PARSE: u64 = TEXT + 0x3000;
const LIBC: Libc = Libc::at(TEXT + 0x6_8000);
const TEMPLATES: u64 = DATA + 0x4000;
const SOURCE: u64 = DATA + 0x1000;
const ASSEMBLY: u64 = DATA + 0x1_5000;

/// `NodeKind` is the kind of a node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    Name,
    Number,
    Call,
    Argument,
    Binary(u8),
    Assign,
    If,
    While,
    Sequence,
}

impl NodeKind {
    /// Returns the number of the kind in the layout of the code generator's cases.
    fn number(self) -> u64 {
        match self {
            Self::Name => 0,
            Self::Number => 1,
            Self::Call => 2,
            Self::Argument => 3,
            Self::Assign => 4,
            Self::If => 5,
            Self::While => 6,
            Self::Sequence => 7,
            Self::Binary(op) => 8 + b"+-*/<>&|".iter().position(|&b| b == op).unwrap_or(0) as u64,
        }
    }
}

/// The number that stands for no node or no symbol.
const NONE: u32 = u32::MAX;

/// `Node` is a node of the tree. Operands are nodes' numbers.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: NodeKind,
    left: u32,
    right: u32,
    value: u32,
}

#[derive(Clone, Copy)]
struct CcomSymbol {
    hash: u64,
    next: u32,
}

/// `Ccom` is the compiler while it compiles one file.
pub(crate) struct Ccom {
    draws: DataRng,
    author: Author,
    begun: bool,
    headers: u64,
    functions: u64,
    text: Vec<u8>,
    at: usize,
    current: Token,
    nodes: Vec<Node>,
    code: Vec<Instruction>,
    buckets: Vec<u32>,
    symbols: Vec<CcomSymbol>,
    statements: u64,
    consumed: u64,
    emitted: u64,
    address: CcomAddresses,
}

/// `CcomAddresses` holds the addresses of the compiler's tables.
struct CcomAddresses {
    buckets: u64,
    symbols: u64,
    nodes: u64,
}

const BUCKETS: usize = 1024;
const SYMBOL: u64 = 56;
const NODE: u64 = 40;

impl Ccom {
    /// Begins a compile of a file with at least `functions.0` functions and up to `functions.1` more.
    pub(crate) fn new(mut draws: DataRng, cpu: &mut Cpu, functions: (u64, u64)) -> Self {
        let author = Author::new(DataRng::new(draws.next(), 0));
        let headers = 600 + draws.below(3_400);
        let address = CcomAddresses {
            buckets: cpu.sbrk(4 * BUCKETS as u64),
            symbols: cpu.sbrk(SYMBOL * (headers + 64)),
            nodes: cpu.sbrk(NODE * 4096),
        };
        Self {
            author,
            begun: false,
            headers,
            functions: functions.0 + draws.below(functions.1),
            draws,
            text: Vec::new(),
            at: 0,
            current: Token::End,
            nodes: Vec::new(),
            code: Vec::new(),
            buckets: vec![NONE; BUCKETS],
            symbols: Vec::new(),
            statements: 0,
            consumed: 0,
            emitted: 0,
            address,
        }
    }

    /// Reads the next token, character by character.
    fn advance(&mut self, cpu: &mut Cpu) {
        let (next, end) = token(&self.text, self.at);
        cpu.jump(LEX);
        cpu.run(6);
        for at in self.at..end {
            let byte = self.text[at];
            cpu.jump(LEX + 0x40 + 0x60 * u64::from(byte >> 4));
            cpu.run(3);
            cpu.load(SOURCE + (self.consumed + at as u64) % 8192 / 4 * 4, 4);
            cpu.run(2);
            cpu.load_local(1);
            cpu.run(2);
            cpu.load(CLASSES + (u64::from(byte) & !3), 4);
            cpu.run(2);
            cpu.store_local(1);
            cpu.run(1);
        }
        self.at = end;
        self.current = next;
    }

    /// Returns the number of the symbol with this name, and adds the symbol if it is new.
    fn lookup(&mut self, cpu: &mut Cpu, hash: u64) -> u32 {
        cpu.call(LOOKUP, 3, 1);
        let bucket = (hash % BUCKETS as u64) as usize;
        cpu.run(9);
        cpu.load(self.address.buckets + 4 * bucket as u64, 4);
        let mut at = self.buckets[bucket];
        while at != NONE && self.symbols[at as usize].hash != hash {
            let symbol = self.address.symbols + SYMBOL * u64::from(at);
            cpu.jump(LOOKUP + 0x60);
            cpu.run(3);
            cpu.load(symbol, 4);
            cpu.run(3);
            cpu.load(symbol + 4, 4);
            cpu.run(1);
            at = self.symbols[at as usize].next;
        }
        if at == NONE {
            at = self.symbols.len() as u32;
            self.symbols.push(CcomSymbol { hash, next: self.buckets[bucket] });
            self.buckets[bucket] = at;
            let symbol = self.address.symbols + SYMBOL * u64::from(at);
            cpu.jump(LOOKUP + 0xc0);
            for word in 0..10 {
                cpu.run(2);
                cpu.store(symbol + 4 * word, 4);
            }
            cpu.run(3);
            cpu.store(self.address.buckets + 4 * bucket as u64, 4);
        } else {
            let symbol = self.address.symbols + SYMBOL * u64::from(at);
            cpu.jump(LOOKUP + 0x140);
            cpu.run(3);
            cpu.load(symbol + 12, 4);
            cpu.run(2);
            cpu.load(symbol + 20, 4);
        }
        cpu.ret(3, 1);
        at
    }

    fn node(&mut self, cpu: &mut Cpu, kind: NodeKind, left: u32, right: u32, value: u32) -> u32 {
        let at = self.address.nodes + NODE * (self.nodes.len() as u64 % 4096);
        cpu.jump(PARSE + 0x4000);
        cpu.run(7);
        for word in 0..6 {
            cpu.run(2);
            cpu.store(at + 4 * word, 4);
        }
        // The types of the operands decide the type of the node.
        for operand in [left, right] {
            if operand != NONE {
                cpu.jump(PARSE + 0x4200 + 0x180 * kind.number());
                cpu.run(5);
                cpu.load(self.address.nodes + NODE * (u64::from(operand) % 4096) + 8, 4);
                cpu.run(4);
                cpu.load_local(1);
                cpu.run(3);
            }
        }
        self.nodes.push(Node { kind, left, right, value });
        self.nodes.len() as u32 - 1
    }

    /// Parses a primary expression.
    fn primary(&mut self, cpu: &mut Cpu) -> u32 {
        cpu.call(PARSE + 0x200, 4, 3);
        let node = match self.current {
            Token::Number(value) => {
                self.advance(cpu);
                self.node(cpu, NodeKind::Number, NONE, NONE, value)
            }
            Token::Word(name) => {
                let symbol = self.lookup(cpu, name);
                self.advance(cpu);
                if self.current == Token::Mark(b'(') {
                    self.arguments(cpu, symbol)
                } else {
                    self.node(cpu, NodeKind::Name, NONE, NONE, symbol)
                }
            }
            _ => {
                self.advance(cpu);
                let inner = self.expression(cpu, 0);
                self.advance(cpu);
                inner
            }
        };
        cpu.ret(4, 3);
        node
    }

    fn arguments(&mut self, cpu: &mut Cpu, symbol: u32) -> u32 {
        self.advance(cpu);
        let mut list = NONE;
        while self.current != Token::Mark(b')') {
            let value = self.expression(cpu, 0);
            list = self.node(cpu, NodeKind::Argument, list, value, 0);
            if self.current == Token::Mark(b',') {
                self.advance(cpu);
            }
        }
        self.advance(cpu);
        self.node(cpu, NodeKind::Call, list, NONE, symbol)
    }

    /// Parses an expression by precedence climbing.
    fn expression(&mut self, cpu: &mut Cpu, above: u32) -> u32 {
        cpu.call(PARSE + 0x800, 5, 3);
        let mut left = self.primary(cpu);
        while let Token::Mark(op) = self.current {
            let binding = match op {
                b'*' | b'/' => 5,
                b'+' | b'-' => 4,
                b'<' | b'>' => 3,
                b'&' => 2,
                b'|' => 1,
                _ => 0,
            };
            cpu.jump(PARSE + 0x900);
            cpu.run(7);
            cpu.load(TEMPLATES + 4 * u64::from(op & 0x7f), 4);
            cpu.run(3);
            if binding <= above {
                break;
            }
            self.advance(cpu);
            let right = self.expression(cpu, binding);
            left = self.node(cpu, NodeKind::Binary(op), left, right, 0);
        }
        cpu.ret(5, 3);
        left
    }

    fn statement(&mut self, cpu: &mut Cpu) -> u32 {
        cpu.call(PARSE + 0x1400, 6, 4);
        let node = match self.current {
            Token::Word(name) if name == hash(b"if") || name == hash(b"while") => {
                let kind = if name == hash(b"if") { NodeKind::If } else { NodeKind::While };
                self.advance(cpu);
                self.advance(cpu);
                let condition = self.expression(cpu, 0);
                self.advance(cpu);
                self.advance(cpu);
                let mut body = NONE;
                while self.current != Token::Mark(b'}') {
                    let next = self.statement(cpu);
                    body = self.node(cpu, NodeKind::Sequence, body, next, 0);
                }
                self.advance(cpu);
                self.node(cpu, kind, condition, body, 0)
            }
            Token::Word(name) => {
                let symbol = self.lookup(cpu, name);
                self.advance(cpu);
                let node = if self.current == Token::Mark(b'(') {
                    self.arguments(cpu, symbol)
                } else {
                    self.advance(cpu);
                    let value = self.expression(cpu, 0);
                    self.node(cpu, NodeKind::Assign, value, NONE, symbol)
                };
                self.advance(cpu);
                node
            }
            _ => {
                self.advance(cpu);
                self.node(cpu, NodeKind::Sequence, NONE, NONE, 0)
            }
        };
        cpu.ret(6, 4);
        node
    }

    /// Compiles the statement in `text` to the end of `code`.
    fn compile(&mut self, cpu: &mut Cpu) {
        self.at = 0;
        self.advance(cpu);
        while self.current != Token::End {
            let root = self.statement(cpu);
            self.generate(cpu, root);
        }
        self.consumed += self.text.len() as u64;
    }

    fn declare(&mut self, cpu: &mut Cpu) {
        self.at = 0;
        self.advance(cpu);
        while self.current != Token::End {
            if let Token::Word(name) = self.current {
                self.lookup(cpu, name);
            }
            cpu.jump(PARSE + 0x6000);
            cpu.run(14);
            self.advance(cpu);
        }
        self.consumed += self.text.len() as u64;
    }

    /// Reads the next block if the lexer has passed a block's end.
    fn read(&mut self, cpu: &mut Cpu, before: u64) -> Status {
        if before / 8192 == self.consumed / 8192 {
            return Status::Ready;
        }
        LIBC.fill(cpu, SOURCE, 8192, (3, self.consumed / 8192 * 8192));
        if self.draws.below(3) == 0 { waits(call::READ) } else { Status::Ready }
    }
}

impl Program for Ccom {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let before = self.consumed;
        self.text.clear();
        if !self.begun {
            self.begun = true;
            LIBC.startup(cpu);
            LIBC.fill(cpu, SOURCE, 8192, (3, 0));
            return waits(call::READ);
        }
        if self.headers > 0 {
            for _ in 0..self.headers.min(8) {
                self.author.declaration(&mut self.text);
                self.headers -= 1;
            }
            self.declare(cpu);
            return self.read(cpu, before);
        }
        if self.statements > 0 {
            self.author.statement(&mut self.text, 1);
            self.statements -= 1;
            self.compile(cpu);
            return self.read(cpu, before);
        }
        self.nodes.clear();
        self.code.clear();
        if self.functions > 0 {
            self.functions -= 1;
            self.statements = 5 + self.draws.below(40);
            return Status::Ready;
        }
        LIBC.drain(cpu, ASSEMBLY, 8192, (4, 0));
        cpu.syscall(call::EXIT, 0, 0, None);
        Status::Exit
    }
}
