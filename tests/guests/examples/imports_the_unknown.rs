//! A transport that wants an interface no host has: `elsewhere:secret/door`.
mod door {
    wit_bindgen::generate!({
        inline: "
            package elsewhere:secret@1.0.0;
            interface door { knock: func() -> bool; }
            world visitor { import door; }
        ",
    });
}

guests::on_send!(_config, _call, batch => {
    Ok(guests::reports(&batch, &door::elsewhere::secret::door::knock().to_string()))
});
