//! Traps in `open`.
guests::on_open!(_config => { panic!("open panics") });
