//! `Lz4` reads consecutive lz4 frames as one stream, and reports a last frame that is cut short.
//!
//! The decoder ends at the end of each frame. It also ends, without an error, where the input breaks off
//! between two blocks. So `Watched` notes whether the decoder asked for more bytes than the input has: then
//! the input is cut short.

use std::io::{self, BufRead, ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;

/// `Lz4` reads lz4 frames.
pub(super) struct Lz4<R: BufRead> {
    frames: FrameDecoder<Watched<R>>,
}

/// `Watched` notes whether a read found its reader at the end.
struct Watched<R> {
    from: R,
    dry: bool,
}

impl<R: BufRead> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.dry |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

impl<R: BufRead> Lz4<R> {
    pub(super) fn new(from: R) -> Self {
        Self { frames: FrameDecoder::new(Watched { from, dry: false }) }
    }
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.frames.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let watched = self.frames.get_mut();
            if watched.dry {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if watched.from.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}
