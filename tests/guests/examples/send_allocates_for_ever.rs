//! Takes memory until there is none.
guests::on_send!(_config, _call, batch => {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    while hoard.len() < usize::MAX {
        hoard.push(std::hint::black_box(vec![1; 1 << 20]));
    }
    Ok(guests::acks(&batch))
});
