//! Prints `amount` lines of 1 KiB to stdout and to stderr before it answers.
guests::on_send!(config, _call, batch => {
    let text = "x".repeat(1_024);
    for number in 0..config.amount {
        println!("{number} {text}");
        eprintln!("{number} {text}");
    }
    Ok(guests::acks(&batch))
});
