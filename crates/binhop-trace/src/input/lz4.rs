//! lz4 frames, one behind another, as one stream that knows whether its last frame was whole.
//!
//! The decoder ends at the end of each frame, and quietly where the input breaks off between two blocks. So what it
//! reads from notes whether it was ever asked for more than there was: that is an input that ends in the middle.

use std::io::{self, BufRead, ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;

/// Reads lz4 frames.
pub(super) struct Lz4<R: BufRead> {
    frames: FrameDecoder<Watched<R>>,
}

/// Notes that it had nothing more to give.
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
