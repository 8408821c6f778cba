"""What a release and an image are made by: workflows, the Dockerfile, compose files, and what tells of the project."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.conftest import ROOT
from tests.faults.command import quick

SCRIPTS = Path(sysconfig.get_path("scripts"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = ROOT / ".github/workflows"
SCHEMAS = {
    "citation-file-format": ["CITATION.cff"],
    "compose-spec": ["compose.yaml", "compose.serve.yaml"],
    "dependabot": [".github/dependabot.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "github-issue-forms": [f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "format", "wish")],
    "github-workflows": [f".github/workflows/{name}.yml" for name in ("release", "test")],
}


def checked(*command: str) -> None:
    """Run a checker of our environment, which must find nothing."""
    done = subprocess.run([SCRIPTS / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_for_another_program_has_the_form_that_this_asks_for(schema: str) -> None:
    import check_jsonschema  # here, as each process that collects tests would load it

    files = [str(ROOT / file) for file in SCHEMAS[schema]]
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", *files])
    assert done.exit_code == 0, done.output


def test_every_file_of_github_is_checked() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*.yml")}
    assert found <= {file for files in SCHEMAS.values() for file in files}


def test_workflows_have_no_fault_that_zizmor_knows() -> None:
    checked("zizmor", "--offline", "--no-progress", "--min-severity", "medium", ".github")


@pytest.mark.skipif(sys.platform == "win32", reason="hadolint has no wheel for Windows")
def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    checked("hadolint", "Dockerfile")


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    text = (WORKFLOWS / "release.yml").read_text("utf-8")
    assert "secrets" not in text
    return yaml.load(text, yaml.BaseLoader)  # as text: YAML 1.1 takes `on` for true


def steps_of(job: dict[str, Any]) -> str:
    return json.dumps(job["steps"])


def test_a_release_is_published_only_after_the_tests_and_the_build_and_without_a_password(
    release: dict[str, Any],
) -> None:
    jobs = release["jobs"]
    assert release["on"] == {"push": {"tags": ["v[0-9]*"]}}
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    needs = {name: job.get("needs") for name, job in jobs.items()}
    assert needs == {
        "test": None,
        "build": "test",
        "publish": "build",
        "release": "publish",
        "image": "publish",
        "site": "publish",
    }
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    *_, last = publish["steps"]
    assert last["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "with" not in last
    assert "TOKEN" not in steps_of(publish)


def test_what_a_release_publishes_was_attested_where_it_was_built_under_a_tag_that_is_its_version(
    release: dict[str, Any],
) -> None:
    build = release["jobs"]["build"]
    assert build["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    steps = steps_of(build)
    order = [steps.index(part) for part in ("GITHUB_REF_NAME", "make dist sbom", "attest-build", "upload-artifact")]
    assert order == sorted(order)
    assert "make dist" not in "".join(
        steps_of(job) for name, job in release["jobs"].items() if "steps" in job and name != "build"
    )


def test_every_job_says_what_it_may_do_how_long_and_which_commit_of_each_action_it_runs() -> None:
    for file in WORKFLOWS.glob("*.yml"):
        workflow = yaml.load(file.read_text("utf-8"), yaml.BaseLoader)
        assert workflow["permissions"] == {}, file.name
        for name, job in workflow["jobs"].items():
            assert job["permissions"], f"{file.name}: {name}"
            assert "timeout-minutes" in job or "uses" in job, f"{file.name}: {name}"
            for step in job.get("steps", ()):
                assert re.search(r"@[0-9a-f]{40}$", step.get("uses", "@" + "0" * 40)), f"{file.name}: {step}"


def test_make_has_every_target_that_a_workflow_calls(release: dict[str, Any]) -> None:
    runs = [step.get("run", "") for job in release["jobs"].values() for step in job.get("steps", ())]
    called = re.findall(r"\bmake ((?:[a-z]+ ?)+)", "\n".join(runs))
    targets = {target for words in called for target in words.split()}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets == {"dist", "sbom", "image", "site"}
    assert not [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


@pytest.mark.exhaustive  # an environment of its own, and one for what reads it
def test_the_bill_of_materials_names_what_the_image_has_and_no_place_on_this_machine(tmp_path: Path) -> None:
    subprocess.run(["make", "sbom", f"DIST={tmp_path}"], cwd=ROOT, check=True, capture_output=True)
    text = (tmp_path / "sbom.cdx.json").read_text("utf-8")
    bill = json.loads(text)
    names = {component["name"].lower() for component in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX"
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == (
        "hepm",
        PROJECT["version"],
    )
    assert {"numpy", "starlette", "neo4j"} <= names
    assert not names & {"pip", "pytest", "torch", "cyclonedx-bom"}
    assert str(tmp_path) not in text
    assert sorted(file.suffix for file in tmp_path.glob("hepm-*")) == [".gz", ".whl"]


def test_the_version_and_the_addresses_are_the_same_wherever_they_are_told() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]
    for file in ("SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml"):
        assert PROJECT["urls"]["Source"] + "/security/advisories/new" in (ROOT / file).read_text("utf-8")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its text on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines if line)]


def test_the_image_runs_as_nobody_in_particular_and_holds_neither_pip_nor_sources() -> None:
    parts = instructions()
    last_stage = parts[max(i for i, part in enumerate(parts) if part[0] == "FROM") :]
    words = dict(last_stage)
    assert int(words["USER"]) > 0
    assert words["COPY"] == "--from=build /opt/hepm /opt/hepm"
    assert [text for word, text in last_stage if word == "RUN" and "pip" in text] == []
    context = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert context[1] == "*"
    copied = {name for word, text in parts if word == "COPY" and "--from" not in text for name in text.split()[:-1]}
    assert {line[1:] for line in context if line[0] == "!"} == copied


def test_compose_runs_the_image_read_only_without_rights_and_for_this_machine_alone() -> None:
    services = yaml.safe_load((ROOT / "compose.serve.yaml").read_text("utf-8"))["services"]
    hepm = services["hepm"]
    assert hepm["read_only"] is True
    assert hepm["cap_drop"] == ["ALL"]
    assert hepm["security_opt"] == ["no-new-privileges:true"]
    assert [port for port in hepm["ports"] if not port.startswith("127.0.0.1:")] == []
    assert hepm["environment"]["HEPM_TOKEN"].startswith("${HEPM_TOKEN:?")


def test_the_settings_of_the_image_serve_others_only_with_a_token_and_its_health_check_tells_a_dead_server(
    tmp_path: Path,
) -> None:
    words = dict(instructions())
    settings = re.search(r"printf '(.+?)'", next(text for word, text in instructions() if "hepm.toml" in text))
    (tmp_path / "hepm").mkdir()
    (tmp_path / "hepm/hepm.toml").write_text(settings[1].replace("\\n", "\n"))
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "HEPM_STORE": str(tmp_path / "memory.hepm"), "HOME": str(tmp_path)}
    arguments = [*json.loads(words["CMD"]), "--port", "0"]
    refused = quick(*arguments, env=variables)
    assert refused.code == 1
    assert "HEPM_TOKEN" in refused.err
    variables["HEPM_TOKEN"] = "an-invented-token"
    *_, check = json.loads(words["HEALTHCHECK"].partition("CMD ")[2])
    command = [SCRIPTS / "hepm", *arguments]
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True) as process:
        address = process.stderr.readline().split()[-1] if process.stderr else ""
        check = check.replace(":8765", ":" + address.rpartition(":")[2])
        try:
            assert address.startswith("http://0.0.0.0:")
            exec(check)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                exec(check.replace("/health", "/metrics"))
        finally:
            process.terminate()
    with pytest.raises(urllib.error.URLError):
        exec(check)
