//! The pictures of pages: `docs/pictures/NAME.svg` is what `NAME.pikchr` says. `UPDATE=1` writes them.

use std::{env, fs};

use pikchr::{Pikchr, PikchrFlags};

use super::page::root;

#[test]
fn pictures_are_those_of_their_sources() {
    let entries = fs::read_dir(root().join("docs/pictures")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let sources: Vec<_> = paths.filter(|path| path.extension().is_some_and(|kind| kind == "pikchr")).collect();
    assert!(sources.len() >= 4, "{sources:?}");
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let drawn = Pikchr::render(&text, None, PikchrFlags::default()).unwrap();
        // Pages may be dark, and the lines are black.
        let svg = drawn.rendered().replacen("font-size:initial;", "font-size:initial;background:#fff", 1);
        let target = source.with_extension("svg");
        if env::var_os("UPDATE").is_some() {
            fs::write(&target, format!("{}\n", svg.trim_end())).unwrap();
        }
        let kept = fs::read_to_string(&target).unwrap();
        assert_eq!(kept.trim_end(), svg.trim_end(), "{}: draw it with UPDATE=1", target.display());
    }
}
