//! Has the pages of error codes in the binary, so that a host answers what each code means, whoever told it.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

const PAGES: &str = "../../docs/errors";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PAGES}");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(PAGES)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    pages.retain(|page| page.extension().is_some_and(|of| of == "md") && !page.ends_with("README.md"));
    pages.sort();
    let mut code = String::from("/// Codes with their pages, in order.\nstatic PAGES: &[(&str, &str)] = &[\n");
    for page in pages {
        let name = page.file_stem().and_then(|name| name.to_str()).ok_or("a page's name is no text")?;
        writeln!(code, "({name:?}, include_str!({:?})),", page.canonicalize()?)?;
    }
    code.push_str("];\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("pages.rs"), code)?;
    Ok(())
}
