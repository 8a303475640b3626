//! This file is the compiler's code generator: it walks the tree, chooses registers and writes instructions.
//!
//! Every kind of node has eight cases, one for each shape of its operands, with 2 KB of code each, as
//! template matchers had. The instructions are for a stack machine, so that the tests can run them.

use super::{ASSEMBLY, Ccom, NODE, NONE, NodeKind, TEMPLATES};
use crate::address_space::{DATA, TEXT};
use crate::cpu::Cpu;

/// The code of the cases. Each kind of node has eight variants of 2 KB, for free registers and operands.
const GENERATE: u64 = TEXT + 0x1_0000;
const VARIANT: u64 = 0x800;
const ALLOCATE: u64 = TEXT + 0x5_8000;
const EMIT: u64 = TEXT + 0x6_4000;

/// `Instruction` is a generated instruction of a stack machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    Push(u32),
    Load(u32),
    Store(u32),
    Binary(u8),
    Call(u32, u32),
    /// Jumps to the code at this index if the top of the stack is 0.
    Unless(u32),
    Jump(u32),
}

impl Ccom {
    /// Appends an instruction: chooses registers and writes the instruction's text.
    fn emit(&mut self, cpu: &mut Cpu, code: Instruction) {
        let out = ASSEMBLY + self.emitted * 20 % 8192 / 4 * 4;
        cpu.call(ALLOCATE + 0x300 * (self.emitted % 13), 4, 4);
        for register in 0..6 {
            cpu.run(4);
            cpu.load(DATA + 0x3000 + 16 * register, 4);
            cpu.run(3);
            cpu.load_local(0);
            cpu.run(2);
            cpu.store_local(0);
            cpu.run(1);
        }
        cpu.store(DATA + 0x3000 + 16 * (self.emitted % 6), 4);
        cpu.ret(4, 4);
        cpu.call(EMIT, 2, 0);
        for word in 0..5 {
            cpu.run(4);
            cpu.load(TEMPLATES + 0x2000 + 4 * word, 4);
            cpu.run(4);
            cpu.store(out + 4 * word, 4);
        }
        cpu.ret(2, 0);
        self.emitted += 1;
        self.code.push(code);
    }

    /// Generates code for a node, its operands first.
    pub(super) fn generate(&mut self, cpu: &mut Cpu, at: u32) {
        if at == NONE {
            return;
        }
        let node = self.nodes[at as usize];
        let shape =
            |operand: u32| if operand == NONE { 0 } else { self.nodes[operand as usize].kind.number() };
        let variant = (shape(node.left) * 3 + shape(node.right)) % 8;
        let case = GENERATE + (node.kind.number() * 8 + variant) * VARIANT;
        let address = self.address.nodes + NODE * (u64::from(at) % 4096);
        cpu.call(case, 6, 4);
        for block in 0..4 {
            cpu.jump(case + 0x40 + 0x60 * block);
            cpu.run(5);
            cpu.load(address + 8 * block, 4);
            cpu.run(3);
            cpu.store_local(block);
            cpu.run(3);
            cpu.load_local(block);
            cpu.run(3);
            cpu.load(TEMPLATES + 512 * node.kind.number() + 64 * variant + 16 * block, 4);
            cpu.run(7);
        }
        match node.kind {
            NodeKind::If | NodeKind::While => {
                let head = self.code.len() as u32;
                self.generate(cpu, node.left);
                let hole = self.code.len();
                self.emit(cpu, Instruction::Unless(0));
                self.generate(cpu, node.right);
                if node.kind == NodeKind::While {
                    self.emit(cpu, Instruction::Jump(head));
                }
                self.code[hole] = Instruction::Unless(self.code.len() as u32);
            }
            kind => {
                self.generate(cpu, node.left);
                self.generate(cpu, node.right);
                match kind {
                    NodeKind::Number => self.emit(cpu, Instruction::Push(node.value)),
                    NodeKind::Name => self.emit(cpu, Instruction::Load(node.value)),
                    NodeKind::Assign => self.emit(cpu, Instruction::Store(node.value)),
                    NodeKind::Binary(op) => self.emit(cpu, Instruction::Binary(op)),
                    NodeKind::Call => {
                        let mut count = 0;
                        let mut argument = node.left;
                        while argument != NONE {
                            count += 1;
                            argument = self.nodes[argument as usize].left;
                        }
                        self.emit(cpu, Instruction::Call(node.value, count));
                    }
                    _ => {}
                }
            }
        }
        cpu.jump(case + 0x400);
        cpu.run(6);
        cpu.ret(6, 4);
    }
}

#[cfg(test)]
mod tests {
    use super::super::IMAGE;
    use super::*;
    use crate::address_space::AddressSpace;
    use crate::data_rng::DataRng;
    use crate::mult::source::hash;
    use std::collections::BTreeMap;

    /// Runs generated code. Values have 32 bits; a call returns the sum of its arguments.
    fn run(code: &[Instruction]) -> BTreeMap<u32, u32> {
        let (mut stack, mut names, mut at) = (Vec::new(), BTreeMap::new(), 0);
        while at < code.len() {
            at += 1;
            match code[at - 1] {
                Instruction::Push(n) => stack.push(n),
                Instruction::Load(s) => stack.push(names.get(&s).copied().unwrap_or(0)),
                Instruction::Store(s) => {
                    let value = stack.pop().unwrap();
                    names.insert(s, value);
                }
                Instruction::Binary(op) => {
                    let (b, a): (u32, u32) = (stack.pop().unwrap(), stack.pop().unwrap());
                    stack.push(match op {
                        b'+' => a.wrapping_add(b),
                        b'-' => a.wrapping_sub(b),
                        b'*' => a.wrapping_mul(b),
                        b'<' => u32::from(a < b),
                        _ => panic!("{op}"),
                    });
                }
                Instruction::Call(_, count) => {
                    let from = stack.len() - count as usize;
                    let sum = stack.drain(from..).sum();
                    stack.push(sum);
                }
                Instruction::Unless(to) if stack.pop() == Some(0) => at = to as usize,
                Instruction::Unless(_) => {}
                Instruction::Jump(to) => at = to as usize,
            }
        }
        names
    }

    #[test]
    fn compiled_code_computes_what_the_source_says() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 1));
        let mut ccom = Ccom::new(DataRng::new(1, 1), &mut cpu, (16, 60));
        ccom.text = b"s = 0; i = 1;\nwhile (i < 11) {\n s = s + i * (i - 1);\n i = i + 1;\n}\n\
            if (i < 5) { s = 0; } t = f(s, 2 * 3, 1) + 1;"
            .to_vec();
        ccom.compile(&mut cpu);
        let names = run(&ccom.code);
        let value = |ccom: &mut Ccom, cpu: &mut Cpu, name: &[u8]| names[&ccom.lookup(cpu, hash(name))];
        // Σ i(i−1) for i = 1 … 10.
        assert_eq!(value(&mut ccom, &mut cpu, b"s"), 330);
        assert_eq!(value(&mut ccom, &mut cpu, b"i"), 11);
        assert_eq!(value(&mut ccom, &mut cpu, b"t"), 338);
        assert_eq!(cpu.depth(), 0, "every call returned");
    }
}
