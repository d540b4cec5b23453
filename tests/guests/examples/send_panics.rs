//! Traps in every `send-batch`.
guests::on_send!(_config, _call, _batch => { panic!("send-batch panics") });
