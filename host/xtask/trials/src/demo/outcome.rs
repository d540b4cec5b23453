//! What a demo found: figures, and checks with what they found wrong.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::evidence::Check;

#[derive(Clone, Debug)]
pub struct Outcome {
    pub rows: Vec<(&'static str, String)>,
    pub checks: Vec<Check>,
}

impl Outcome {
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.breaches.is_empty())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        for (name, value) in &self.rows {
            table.add_row([name, value.as_str()]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))
    }
}
