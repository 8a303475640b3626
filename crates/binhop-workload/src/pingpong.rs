//! pingpong is a file server and its client, which exchange messages (MB90 Table 1: "as if one were a file
//! server and the other a client"; §4: such as in a kernelized operating system).
//!
//! A message is a header of ten words and a block of up to 512 bytes. It crosses between the processes in one
//! message call, which sends and waits for the answer. The client works through one file after the other: it
//! reads and writes blocks and asks for the file's status. It encodes a request word by word, as remote
//! procedure calls do, with a sum over the block. The server checks the sum, looks the path up in its
//! directory, component by component, copies the block between the message and its cache, and encodes the
//! answer. Each process keeps the last message in a buffer of its own. The kernel's copy makes no reference.
//!
//! Sizes: the cache has 24 files of 16 blocks, 192 KB. Server and client have 0.6 MB together. The processes
//! never end and take turns of some 6,600 instructions.

use std::sync::{Arc, Mutex};

use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Command, Program, Status, call};

pub(crate) const SERVER: Image =
    Image { name: "fileserver", segment: 27, text: 64 << 10, data: 32 << 10, initialised: 8 << 10 };
pub(crate) const CLIENT: Image =
    Image { name: "client", segment: 28, text: 64 << 10, data: 32 << 10, initialised: 8 << 10 };

/// The address spaces of the two processes, in the order in which the mix starts them.
const SERVER_SPACE: u64 = 1;
const CLIENT_SPACE: u64 = 2;

const FILES: usize = 24;
const BLOCKS: usize = 16;
/// The words of a block.
const WORDS: usize = 128;
/// The requests for one file before the client turns to the next.
const REQUESTS: u64 = 400;
const HEADER: u64 = 10;
/// The components of a path, and the characters of a component. A directory has 8 entries.
const DEPTH: usize = 4;
const NAME: usize = 8;
const ENTRIES: u64 = 8;

const ENCODE: u64 = TEXT + 0x2000;
const SUM: u64 = TEXT + 0x3000;
const COPY: u64 = TEXT + 0x3400;
const LOOKUP: u64 = TEXT + 0x4000;
const SERVE: u64 = TEXT + 0x5000;
const ASK: u64 = TEXT + 0x6000;
/// The buffer of the message, in both processes.
const MESSAGE: u64 = DATA + 0x2000;
/// A table of the conversion: the type of each word.
const CONVERSIONS: u64 = DATA + 0x1800;
/// The client's block.
const BLOCK: u64 = DATA + 0x3000;

/// `Operation` is what the client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Operation {
    #[default]
    Read,
    Write,
    Stat,
}

/// `Message` is a request or an answer.
#[derive(Clone, Debug, Default)]
struct Message {
    operation: Operation,
    /// The path's components.
    path: [[u8; NAME]; DEPTH],
    block: usize,
    /// A block of a read's answer or a write's request; the size and the time of a status.
    words: Vec<u32>,
    sum: u32,
}

type Mailbox = Arc<Mutex<Message>>;

/// Returns the server and the client.
pub(crate) fn commands(draws: DataRng) -> Vec<Command> {
    let mailbox = Mailbox::default();
    let at_server = Arc::clone(&mailbox);
    vec![
        Command { image: SERVER, start: Box::new(move |cpu| Box::new(FileServer::new(at_server, cpu))) },
        Command { image: CLIENT, start: Box::new(move |cpu| Box::new(Client::new(mailbox, draws, cpu))) },
    ]
}

/// Returns the path of a file. The digits of its number to the base 8 choose the entries of the directories.
fn path(file: usize) -> [[u8; NAME]; DEPTH] {
    std::array::from_fn(|level| component((file as u64 >> (3 * (DEPTH - 1 - level))) % ENTRIES))
}

/// Returns the name of a directory's entry.
fn component(entry: u64) -> [u8; NAME] {
    let mut name = *b"magic.0x";
    name[6] = b'0' + entry as u8;
    name
}

/// Returns the sum of a block, with the references of the loop that computes it. `at` is the block's address.
fn sum(cpu: &mut Cpu, words: &[u32], at: u64) -> u32 {
    cpu.call(SUM, 2, 0);
    let mut sum = 0u32;
    for (index, &word) in words.iter().enumerate() {
        cpu.jump(SUM + 0x20);
        cpu.run(2);
        cpu.load(at + 4 * index as u64, 4);
        cpu.run(3);
        sum = sum.rotate_left(1).wrapping_add(word);
    }
    cpu.ret(2, 0);
    sum
}

/// Copies words from one address to another.
fn copy(cpu: &mut Cpu, words: usize, from: u64, to: u64) {
    for word in 0..words as u64 {
        cpu.jump(COPY);
        cpu.run(2);
        cpu.load(from + 4 * word, 4);
        cpu.run(1);
        cpu.store(to + 4 * word, 4);
        cpu.run(2);
    }
}

/// Encodes or decodes the message in the buffer: a call per word of the header and the block.
fn convert(cpu: &mut Cpu, words: usize) {
    for word in 0..HEADER + words as u64 {
        cpu.call(ENCODE, 1, 1);
        cpu.run(3);
        cpu.load(MESSAGE + 4 * word, 4);
        cpu.run(2);
        cpu.store_local(0);
        cpu.run(3);
        cpu.load_local(0);
        cpu.run(2);
        cpu.store_local(0);
        cpu.run(1);
        cpu.load(CONVERSIONS + 4 * (word % 8), 4);
        cpu.store(MESSAGE + 4 * word, 4);
        cpu.run(1);
        cpu.ret(1, 1);
    }
}

/// `FileServer` serves requests from the files in its memory.
struct FileServer {
    mailbox: Mailbox,
    begun: bool,
    files: Vec<[[u32; WORDS]; BLOCKS]>,
    /// The number of writes to each file.
    written: [u32; FILES],
    cache: u64,
    directories: u64,
}

impl FileServer {
    fn new(mailbox: Mailbox, cpu: &mut Cpu) -> Self {
        Self {
            mailbox,
            begun: false,
            files: vec![[[0; WORDS]; BLOCKS]; FILES],
            written: [0; FILES],
            cache: cpu.sbrk((4 * WORDS * BLOCKS * FILES) as u64),
            directories: cpu.sbrk(16 << 10),
        }
    }

    /// Finds a file: in each directory of the path it compares the component with the entries.
    fn look_up(&self, cpu: &mut Cpu, path: &[[u8; NAME]; DEPTH]) -> usize {
        let mut file = 0;
        for name in path {
            cpu.call(LOOKUP, 3, 2);
            let directory = self.directories + 32 * ENTRIES * file as u64;
            let mut entry = 0;
            loop {
                cpu.jump(LOOKUP + 0x40);
                cpu.run(4);
                cpu.load(directory + 32 * entry, 4);
                cpu.run(3);
                let candidate = component(entry);
                let same = name.iter().zip(candidate).take_while(|(a, b)| *a == b).count();
                for byte in 0..=same.min(NAME - 1) as u64 {
                    cpu.jump(LOOKUP + 0x80);
                    cpu.run(2);
                    cpu.load(directory + 32 * entry + 8 + byte / 4 * 4, 4);
                    cpu.run(2);
                    cpu.load(MESSAGE + 16 + byte / 4 * 4, 4);
                    cpu.run(3);
                }
                if same == NAME {
                    break;
                }
                entry += 1;
            }
            cpu.load(directory + 32 * entry + 4, 4);
            cpu.ret(3, 2);
            file = file * ENTRIES as usize + entry as usize;
        }
        file
    }

    /// Serves the request in the message.
    fn serve(&mut self, cpu: &mut Cpu, message: &mut Message) {
        cpu.call(SERVE, 6, 4);
        convert(cpu, message.words.len());
        let payload = MESSAGE + 4 * HEADER;
        let valid = sum(cpu, &message.words, payload) == message.sum;
        assert!(valid, "the client and the server compute the same sum");
        let file = self.look_up(cpu, &message.path);
        let place = self.cache + (4 * WORDS * (file * BLOCKS + message.block)) as u64;
        match message.operation {
            Operation::Read => {
                copy(cpu, WORDS, place, payload);
                message.words = self.files[file][message.block].to_vec();
            }
            Operation::Write => {
                copy(cpu, WORDS, payload, place);
                self.files[file][message.block].copy_from_slice(&message.words);
                self.written[file] += 1;
                message.words.clear();
            }
            Operation::Stat => {
                for word in 0..8 {
                    cpu.run(4);
                    cpu.load(self.directories + (12 << 10) + 64 * file as u64 + 4 * word, 4);
                    cpu.run(2);
                    cpu.store(payload + 4 * word, 4);
                }
                message.words = vec![(4 * WORDS * BLOCKS) as u32, self.written[file]];
            }
        }
        message.sum = sum(cpu, &message.words, payload);
        convert(cpu, message.words.len());
        cpu.ret(6, 4);
    }
}

impl Program for FileServer {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let mut to = None;
        cpu.jump(TEXT + 0x1000);
        if self.begun {
            let mailbox = Arc::clone(&self.mailbox);
            let mut message = mailbox.lock().expect("the client does not panic");
            self.serve(cpu, &mut message);
            to = Some(CLIENT_SPACE);
        }
        self.begun = true;
        cpu.syscall(call::SENDMSG, MESSAGE, 4 * (HEADER as u32 + WORDS as u32), None);
        Status::Exchange { to }
    }
}

/// `Client` asks for one file after the other.
struct Client {
    mailbox: Mailbox,
    draws: DataRng,
    begun: bool,
    requests: u64,
    file: usize,
    /// The words of the client's block.
    block: Vec<u32>,
    results: u64,
}

impl Client {
    fn new(mailbox: Mailbox, mut draws: DataRng, cpu: &mut Cpu) -> Self {
        let file = draws.below(FILES as u64) as usize;
        let results = cpu.sbrk(64 << 10);
        Self { mailbox, draws, begun: false, requests: 0, file, block: vec![0; WORDS], results }
    }

    /// Takes the answer: checks its sum, and uses the block of a read.
    fn take(&mut self, cpu: &mut Cpu, message: &Message) {
        let payload = MESSAGE + 4 * HEADER;
        convert(cpu, message.words.len());
        let valid = sum(cpu, &message.words, payload) == message.sum;
        assert!(valid, "the client and the server compute the same sum");
        match message.operation {
            Operation::Read => {
                copy(cpu, WORDS, payload, BLOCK);
                self.block.copy_from_slice(&message.words);
            }
            Operation::Write => {}
            Operation::Stat => {
                for word in 0..8 {
                    cpu.run(4);
                    cpu.load(payload + 4 * word, 4);
                    cpu.run(3);
                    cpu.store(self.results + 64 * self.file as u64 + 4 * word, 4);
                }
            }
        }
    }

    /// Changes the block, as the client's user does.
    fn work(&mut self, cpu: &mut Cpu) {
        for word in 0..WORDS {
            cpu.jump(ASK + 0x400);
            cpu.run(2);
            cpu.load(BLOCK + 4 * word as u64, 4);
            cpu.run(4);
            cpu.store(BLOCK + 4 * word as u64, 4);
            cpu.run(2);
            self.block[word] = self.block[word].wrapping_mul(0x0019_660d).wrapping_add(word as u32);
        }
    }

    /// Makes the next request.
    fn ask(&mut self, cpu: &mut Cpu, message: &mut Message) {
        cpu.call(ASK, 6, 8);
        self.requests += 1;
        if self.requests.is_multiple_of(REQUESTS) {
            self.file = self.draws.below(FILES as u64) as usize;
        }
        let payload = MESSAGE + 4 * HEADER;
        message.path = path(self.file);
        for byte in 0..(NAME * DEPTH) as u64 {
            cpu.jump(ASK + 0x80);
            cpu.run(3);
            cpu.load_local(2);
            cpu.run(3);
            cpu.store(MESSAGE + 16 + byte / 4 * 4, 4);
        }
        message.block = self.draws.below(BLOCKS as u64) as usize;
        message.operation = match self.draws.below(25) {
            0..=15 => Operation::Read,
            16..=23 => Operation::Write,
            _ => Operation::Stat,
        };
        message.words.clear();
        self.work(cpu);
        if message.operation == Operation::Write {
            copy(cpu, WORDS, BLOCK, payload);
            message.words.extend_from_slice(&self.block);
        }
        message.sum = sum(cpu, &message.words, payload);
        convert(cpu, message.words.len());
        cpu.ret(6, 8);
    }
}

impl Program for Client {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let mailbox = Arc::clone(&self.mailbox);
        let mut message = mailbox.lock().expect("the server does not panic");
        cpu.jump(TEXT + 0x1000);
        if self.begun {
            self.take(cpu, &message);
        }
        self.begun = true;
        self.ask(cpu, &mut message);
        cpu.syscall(call::SENDMSG, MESSAGE, 4 * (HEADER as u32 + WORDS as u32), None);
        Status::Exchange { to: Some(SERVER_SPACE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;
    use std::collections::BTreeMap;

    #[test]
    fn a_read_returns_what_was_written_last() {
        let mailbox = Mailbox::default();
        let mut cpus = [SERVER, CLIENT].map(|image| Cpu::new(AddressSpace::new(image, 1)));
        let mut server = FileServer::new(Arc::clone(&mailbox), &mut cpus[0]);
        let mut client = Client::new(Arc::clone(&mailbox), DataRng::new(1, 0), &mut cpus[1]);
        server.step(&mut cpus[0]);
        let mut known: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        let mut writes: BTreeMap<usize, u32> = BTreeMap::new();
        let (mut reads, mut stats) = (0, 0);
        for _ in 0..4_000 {
            client.step(&mut cpus[1]);
            let request = mailbox.lock().unwrap().clone();
            assert_eq!(request.path, path(client.file));
            server.step(&mut cpus[0]);
            let answer = mailbox.lock().unwrap().clone();
            let place = (client.file, request.block);
            match request.operation {
                Operation::Write => {
                    known.insert(place, request.words);
                    *writes.entry(client.file).or_default() += 1;
                }
                Operation::Read => {
                    let expected = known.get(&place).cloned().unwrap_or_else(|| vec![0; WORDS]);
                    assert_eq!(answer.words, expected);
                    reads += 1;
                }
                Operation::Stat => {
                    assert_eq!(answer.words[1], writes.get(&client.file).copied().unwrap_or(0));
                    stats += 1;
                }
            }
            for cpu in &mut cpus {
                cpu.finish_step();
                cpu.rows.clear();
            }
        }
        assert!(reads > 2_000 && stats > 100, "{reads} reads, {stats} calls of stat");
        assert_eq!((cpus[0].depth(), cpus[1].depth()), (0, 0));
    }
}
