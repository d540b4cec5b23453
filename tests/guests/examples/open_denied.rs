//! `open` fails: the peer refused the credentials.
guests::on_open!(_config => {
    Err(guests::PluginError::denied("FIXTURE.DENIED", "the peer refused the credentials"))
});
