//! Sends well, and traps when what it used for it is dropped, before its outcomes are out.
struct Bad;

impl Drop for Bad {
    fn drop(&mut self) {
        panic!("panics in drop");
    }
}

guests::on_send!(_config, _call, batch => {
    let _bad = Bad;
    Ok(guests::acks(&batch))
});
