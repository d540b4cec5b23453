//! Reading the last line of a test program.

/// Tests of all suites together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    /// Tests that failed; a suite that died counts as one.
    pub failed: usize,
    /// Suites with a failure, one sentence each.
    pub failed_suites: Vec<String>,
    /// What tests didn't try, in their words, each of it once.
    pub left_out: Vec<String>,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, run: Self) {
        self.passed += run.passed;
        self.failed += run.failed;
        self.failed_suites.extend(run.failed_suites);
        self.leave_out(run.left_out);
    }

    /// Adds what tests didn't try; several runs leave out the same.
    pub fn leave_out(&mut self, left_out: Vec<String>) {
        for what in left_out {
            if !self.left_out.contains(&what) {
                self.left_out.push(what);
            }
        }
    }

    /// Adds what a suite came to, and why it is no success.
    pub fn take(&mut self, suite: &str, outcome: Outcome, failure: Option<String>) {
        self.passed += outcome.passed;
        self.failed += outcome.failed;
        if let Some(failure) = failure {
            self.failed += usize::from(outcome.failed == 0);
            self.failed_suites.push(format!("{suite}: {failure}"));
        }
    }
}

/// What one test program said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub passed: usize,
    pub failed: usize,
    /// Tests marked as to be ignored.
    pub ignored: usize,
    /// It wrote its last line.
    pub complete: bool,
}

impl Outcome {
    /// Takes one line of output into account: `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
    pub fn read(&mut self, line: &str) {
        // A colour may stand around the word in the middle.
        let Some((_, rest)) = line.split_once("test result: ") else { return };
        let Some((_, rest)) = rest.split_once(". ") else { return };
        self.complete = true;
        for part in rest.split(';') {
            let mut words = part.split_whitespace();
            let (Some(Ok(number)), Some(what)) = (words.next().map(str::parse::<usize>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read_with_and_without_colour() {
        let read = |line| {
            let mut outcome = Outcome::default();
            outcome.read(line);
            outcome
        };
        let line = "test result: ok. 20 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.07s";
        assert_eq!(read(line), Outcome { passed: 20, failed: 0, ignored: 1, complete: true });
        let line =
            "test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 20 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(read(line), Outcome { passed: 20, failed: 2, ignored: 0, complete: true });
        assert_eq!(read("test kill::tests::x ... ok"), Outcome::default());
    }

    #[test]
    fn several_programs_add_up() {
        let mut outcome = Outcome::default();
        outcome.read("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        outcome.read("test result: ok. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!((outcome.passed, outcome.failed), (3, 1));
    }
}
