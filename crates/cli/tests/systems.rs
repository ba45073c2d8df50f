//! `docs/systems/` is what `larder docs` writes today.

use std::path::Path;
use std::process::Command;

#[test]
fn the_committed_documents_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = tempfile::tempdir().expect("a temporary directory");
    let written = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["docs", "--out"])
        .arg(out.path())
        .current_dir(&root)
        .output()
        .expect("the binary was built with this test");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let file = format!("{system}.md");
        let read = |path: &Path| std::fs::read_to_string(path.join(&file)).expect("it is there");
        let (now, committed) = (read(out.path()), read(&root.join("docs/systems")));
        assert!(now == committed, "docs/systems/{file} is old: run `larder docs --out docs/systems`");
    }
}
