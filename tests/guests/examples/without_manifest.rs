//! A transport whose author forgot `manifest!`.
guests::sends!(_config, _call, batch => { Ok(guests::acks(&batch)) });
