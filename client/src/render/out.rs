//! Where a transcript goes: lines and flowing text to stdout or stderr, never glued together.
//!
//! Invariants: a line always begins at the beginning of a line, whatever was written before; a closed stdout
//! is an error that ends the command, a closed stderr is nobody's loss.

use super::transcript::Piece;
use crate::error::ClientError;
use std::io::Write;
use std::os::fd::AsFd;

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Data.
    Stdout,
    /// Messages.
    Stderr,
    /// Not shown.
    Nowhere,
}

/// Writes pieces of a transcript.
pub(crate) struct Printer {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    flow_to: To,
    lines_to: To,
    /// Both streams are the same terminal.
    same_place: bool,
    out_at_start: bool,
    err_at_start: bool,
}

impl Printer {
    /// A printer on the process's own streams.
    pub(crate) fn new(flow_to: To, lines_to: To) -> Self {
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let same_place = rustix::termios::isatty(out.as_fd()) && rustix::termios::isatty(err.as_fd());
        Self::on(Box::new(out), Box::new(err), flow_to, lines_to, same_place)
    }

    /// A printer on given streams.
    pub(crate) fn on(
        out: Box<dyn Write>,
        err: Box<dyn Write>,
        flow_to: To,
        lines_to: To,
        same_place: bool,
    ) -> Self {
        Self { out, err, flow_to, lines_to, same_place, out_at_start: true, err_at_start: true }
    }

    /// Writes pieces in order.
    pub(crate) fn pieces(&mut self, pieces: &[Piece]) -> Result<(), ClientError> {
        for piece in pieces {
            match piece {
                Piece::Line(line) => self.line(self.lines_to, line)?,
                Piece::Flow(text) => self.flow(text)?,
            }
        }
        Ok(())
    }

    /// A line of data.
    pub(crate) fn data(&mut self, line: &str) -> Result<(), ClientError> {
        self.line(To::Stdout, line)
    }

    /// A message to the person.
    pub(crate) fn note(&mut self, line: &str) {
        // Nobody reads stderr: then nobody is to be told.
        let _ = self.line(To::Stderr, line);
    }

    /// Ends a line of flowing text that is not ended.
    pub(crate) fn end_flow(&mut self) -> Result<(), ClientError> {
        if !self.at_start(self.flow_to) { self.write(self.flow_to, "\n") } else { Ok(()) }
    }

    fn line(&mut self, to: To, line: &str) -> Result<(), ClientError> {
        // A line begins anew wherever flowing text stopped in the same place.
        let guard = if self.at_start(to) { "" } else { "\n" };
        self.write(to, &format!("{guard}{line}\n"))
    }

    fn flow(&mut self, text: &str) -> Result<(), ClientError> {
        let text = if self.at_start(self.flow_to) { text.trim_start_matches('\n') } else { text };
        self.write(self.flow_to, text)
    }

    fn at_start(&self, to: To) -> bool {
        match to {
            To::Nowhere => true,
            _ if self.same_place => self.out_at_start && self.err_at_start,
            To::Stdout => self.out_at_start,
            To::Stderr => self.err_at_start,
        }
    }

    fn write(&mut self, to: To, text: &str) -> Result<(), ClientError> {
        if text.is_empty() || to == To::Nowhere {
            return Ok(());
        }
        let starts = text.ends_with('\n');
        if to == To::Stdout || self.same_place {
            self.out_at_start = starts;
        }
        if to == To::Stderr || self.same_place {
            self.err_at_start = starts;
        }
        if to == To::Stdout {
            self.out.write_all(text.as_bytes())?;
            self.out.flush()?;
        } else {
            let _ = self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A stream that tests can read.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(pub(crate) Rc<RefCell<Vec<u8>>>);

    impl Kept {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_never_glue_to_flowing_text() {
        let (out, err) = (Kept::default(), Kept::default());
        let mut printer =
            Printer::on(Box::new(out.clone()), Box::new(err.clone()), To::Stdout, To::Stdout, false);
        let pieces = [
            Piece::Flow("Hel".into()),
            Piece::Flow("lo".into()),
            Piece::Line("* call".into()),
            Piece::Flow("\nmore\n".into()),
            Piece::Line("= end".into()),
        ];
        printer.pieces(&pieces).unwrap();
        printer.note("left");
        assert_eq!(out.text(), "Hello\n* call\nmore\n= end\n");
        assert_eq!(err.text(), "left\n");
    }

    #[test]
    fn two_streams_in_one_terminal_share_the_cursor() {
        let both = Kept::default();
        let mut printer =
            Printer::on(Box::new(both.clone()), Box::new(both.clone()), To::Stdout, To::Stderr, true);
        printer.pieces(&[Piece::Flow("text".into()), Piece::Line("line".into())]).unwrap();
        printer.pieces(&[Piece::Flow("more".into())]).unwrap();
        printer.end_flow().unwrap();
        printer.end_flow().unwrap();
        assert_eq!(both.text(), "text\nline\nmore\n");
    }

    #[test]
    fn a_closed_stdout_ends_and_a_closed_stderr_does_not() {
        let mut printer = Printer::on(Box::new(Closed), Box::new(Closed), To::Stdout, To::Stderr, false);
        printer.note("nobody");
        printer.pieces(&[Piece::Line("nobody".into())]).unwrap();
        let error = printer.pieces(&[Piece::Flow("x".into())]).unwrap_err();
        assert_eq!(error.kind, crate::error::ErrorKind::BrokenPipe);
    }
}
