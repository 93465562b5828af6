//! Plays the tasks of the page `examples/shop/README.md`, and prints it with the figures; with `--write`, writes it.

mod figures;
mod play;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let page = figures::set(&std::fs::read_to_string(path)?, &figures::play().await);
    if std::env::args().any(|argument| argument == "--write") {
        return std::fs::write(path, page);
    }
    println!("{page}");
    Ok(())
}
