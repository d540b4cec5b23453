//! Answers with `amount` bytes of reason, code, scope and attribute each.
use guests::Fault;

guests::on_send!(config, _call, batch => {
    let text = "x".repeat(config.amount);
    Ok(batch
        .iter()
        .map(|_| Fault::new(text.clone(), text.clone()).with_attribute(text.clone(), text.clone()).blocking(text.clone()))
        .collect())
});
