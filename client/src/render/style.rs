//! Whether and how a stream may be coloured, and how wide it is.
//!
//! Invariant: no escape is ever written off a terminal, with `NO_COLOR` (non-empty), or with `TERM=dumb` or
//! no `TERM`. Colours are only added around text that went through [`super::safe`].

use std::os::fd::AsFd;

/// What a stream can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Colour codes may be written.
    pub(crate) colour: bool,
    /// Columns, if it is a terminal that knows them.
    pub(crate) columns: Option<u16>,
}

/// The few inks that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Less important.
    Dim,
    /// More important.
    Bold,
    /// Good.
    Green,
    /// Bad.
    Red,
    /// Somebody must act.
    Yellow,
    /// Said by the user.
    Cyan,
}

impl Style {
    /// No colour, no width.
    pub(crate) const PLAIN: Self = Self { colour: false, columns: None };

    /// What `stream` can show, by itself and the environment.
    pub(crate) fn of(stream: impl AsFd) -> Self {
        if !rustix::termios::isatty(&stream) {
            return Self::PLAIN;
        }
        let term = std::env::var_os("TERM");
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = term.is_none_or(|term| term.is_empty() || term == "dumb");
        let columns = rustix::termios::tcgetwinsize(&stream).ok().map(|size| size.ws_col).filter(|n| *n > 0);
        Self { colour: !no_colour && !dumb, columns }
    }

    /// `text` in this ink, if inks are allowed. `text` must be safe already.
    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Dim => "2",
            Ink::Bold => "1",
            Ink::Green => "32",
            Ink::Red => "31",
            Ink::Yellow => "33",
            Ink::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// How many characters a one-line extract may have after `used` columns.
    pub(crate) fn room(self, used: usize) -> usize {
        const WITHOUT_TERMINAL_CHARS: usize = 160;
        const LEAST_CHARS: usize = 12;
        match self.columns {
            Some(columns) => usize::from(columns).saturating_sub(used).max(LEAST_CHARS),
            None => WITHOUT_TERMINAL_CHARS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paints_nothing() {
        assert_eq!(Style::PLAIN.paint(Ink::Red, "x"), "x");
    }

    #[test]
    fn a_pipe_is_plain() {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        assert_eq!(Style::of(&read), Style::PLAIN);
    }

    #[test]
    fn narrow_terminals_leave_some_room() {
        let style = Style { colour: false, columns: Some(20) };
        assert_eq!(style.room(4), 16);
        assert_eq!(style.room(40), 12);
    }
}
