"""The report in a real browser: it draws, obeys the hand, and asks the network for nothing."""

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.lumpy_shapes import lumpy_cloud
from support.reports import HOSTILE, alternative_of
from support.rigid_motions import rigid_motions

from eda.output.own_colors import OwnColors, Skin
from eda.output.report import Report, ReportPiece, write_report
from eda.output.seams import Joint, Paint, Seams
from eda.render.colors import FOREIGN, PIECES, confidence_colors

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium on the path: apt-get install chromium", allow_module_level=True)

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BLUE, ORANGE, GREEN = PIECES[:3]
STILL = "canvas[data-frame=still]"
PATIENCE = 60_000  # milliseconds, for machines with other work

PLACES = np.array([[-1.6, 0, 0], [0, 0.3, 0], [1.6, 0, 0]])
CONFIDENCE = np.array([0.0, 1.0, 0.55])


def placed(places: np.ndarray) -> np.ndarray:
    return rigid_motions(np.broadcast_to(np.eye(3), (len(places), 3, 3)), places)


def blobs() -> Report:
    """Three blobs side by side that come from far away; in the second alternative two have changed their places."""
    pieces = [ReportPiece(f"blob {i}", *lumpy_cloud(i, 160)) for i in range(3)]
    flow = placed(np.array([[5.0, 3, 0], [-5, 0, 3], [0, -5, -3]]))[None]
    best = alternative_of(placed(PLACES), 1.5, 0.75, CONFIDENCE, joints=[(0, 1, 0.9), (1, 2, 0.1)])
    other = alternative_of(placed(PLACES[[2, 1, 0]]), 0.5, 0.25, CONFIDENCE[::-1], placed=[True, False, True])
    return Report("Three blobs", pieces, [best, other], flow, command="eda assemble 'a b'", facts={"Seed": "0"})


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Opened:
    """A report in a page of its own, with all that the page complained about, asked for and popped up."""

    def __init__(self, browser, path, width: int, **options) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 480}, reduced_motion="reduce", has_touch=True, **options
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.address, self.events = path.as_uri(), []
        self.page.on("console", lambda message: self.events.append(("console", message.text)))
        self.page.on("pageerror", lambda error: self.events.append(("error", str(error))))
        self.page.on("dialog", lambda dialog: (self.events.append(("dialog", dialog.message)), dialog.dismiss()))
        self.page.on("request", lambda request: self.events.append(("request", request.url)))

    def start(self) -> "Opened":
        self.page.goto(self.address)
        return self

    def picture(self) -> np.ndarray:
        """(height, width, 3) the canvas, once it stands still."""
        self.page.wait_for_selector(STILL)
        shot = self.page.locator("#canvas").screenshot()
        return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), dtype=np.float64)

    def slide(self, name: str, value: float) -> None:
        """What a hand on the slider does."""
        self.page.locator(f"#{name}").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')) }", value)

    def press(self, *keys: str) -> None:
        self.page.locator("#canvas").focus()
        for key in keys:
            self.page.keyboard.press(key)


@pytest.fixture(scope="module")
def show(browser, tmp_path_factory):
    opened = []

    def show(scene: Report, width: int = 400, *, before: str = "", **options) -> Opened:
        path = tmp_path_factory.mktemp("report") / "report.html"
        write_report(path, scene)
        opened.append(Opened(browser, path, width, **options))
        opened[-1].page.add_init_script(before)
        return opened[-1].start()

    yield show
    for each in opened:
        each.context.close()


@pytest.fixture(scope="module")
def opened_blobs(show):
    return show(blobs(), permissions=["clipboard-read", "clipboard-write"])


@pytest.fixture
def report(opened_blobs):
    """The blobs as they are first shown. Starting a page is most of the work, so tests share it and it is put back."""
    page = opened_blobs.page
    page.locator("input[name=alternative]").first.check()
    page.locator("input[name=color-by]").first.check(force=True)
    page.get_by_role("button", name="Show all").click()
    opened_blobs.slide("time", 1)
    opened_blobs.slide("explode", 0)
    opened_blobs.press("Escape", "0")
    return opened_blobs


def where(picture: np.ndarray, color: np.ndarray) -> np.ndarray:
    """(n, 2) rows and columns of the pixels that have this colour, in any light."""
    colorful = picture - picture.min(axis=2, keepdims=True)
    wanted = 255 * (color - color.min())
    length = np.linalg.norm(colorful, axis=2)
    cosine = colorful @ wanted / np.maximum(length * np.linalg.norm(wanted), 1e-9)
    return np.argwhere((cosine > 0.99) & (length > 0.4 * np.linalg.norm(wanted)))


def assert_same(picture: np.ndarray, other: np.ndarray) -> None:
    """But for the ring of the focus at the rim, and the dither of what is behind."""
    np.testing.assert_allclose(picture[8:-8, 8:-8], other[8:-8, 8:-8], atol=1)


def rows_of(picture: np.ndarray) -> list[float]:
    """How far down each blob is. The page draws the longest direction upright, and the blobs stand along it."""
    return [float(np.median(where(picture, color)[:, 0])) for color in (BLUE, ORANGE, GREEN)]


def test_it_draws_every_piece_and_asks_for_nothing(report):
    picture = report.picture()
    for color in (BLUE, ORANGE, GREEN):
        assert len(where(picture, color)) > 500
    assert report.events == [("request", report.address)]
    assert report.page.title() == "Three blobs"
    assert report.page.locator("#command").inner_text() == "eda assemble 'a b'"
    cells = report.page.locator("#numbers table").first.locator("tbody tr").nth(2).locator("td").all_inner_texts()
    center = lumpy_cloud(2, 160)[0].mean(axis=0) + PLACES[2]
    assert cells[:4] == ["blob 2", "160", "55\u00a0%", "0.0°"]
    np.testing.assert_allclose([float(cell.replace("−", "-")) for cell in cells[-3:]], center, atol=1e-3)


def test_hostile_names_and_commands_are_shown_as_text(show):
    scene = blobs()
    pieces = [replace(scene.pieces[0], name=HOSTILE), *scene.pieces[1:]]
    report = show(replace(scene, title=HOSTILE, command=HOSTILE, facts={HOSTILE: HOSTILE}, pieces=pieces))
    report.page.wait_for_selector(STILL)
    report.page.locator("button.name").first.click()
    shown = HOSTILE.replace("\udc80", "\ufffd")
    assert report.page.locator("#command").text_content().replace("\udc80", "\ufffd") == shown
    assert report.page.locator("#picked h2").text_content().replace("\udc80", "\ufffd") == shown
    assert report.page.locator("img").count() == 0
    assert report.events == [("request", report.address)]


def test_a_note_is_seen_where_there_is_one(show, report):
    assert report.page.locator("#note").is_hidden()
    noted = show(replace(blobs(), note=HOSTILE.replace("\udc80", "")))
    noted.picture()
    assert noted.page.locator("#note").is_visible()
    assert noted.page.locator("#note").text_content() == HOSTILE.replace("\udc80", "")


def test_hiding_a_piece_removes_its_colour_alone(report):
    before = report.picture()
    report.page.get_by_label("Show blob 1").uncheck()
    hidden = report.picture()
    assert len(where(hidden, ORANGE)) == 0
    np.testing.assert_allclose(len(where(hidden, BLUE)), len(where(before, BLUE)), rtol=0.2)
    report.page.get_by_role("button", name="Show all").click()
    assert_same(report.picture(), before)


def test_time_and_explosion_move_the_pieces_and_come_back(report):
    whole = report.picture()
    assert np.ptp(np.sign(np.diff(rows_of(whole)))) == 0  # one after the other
    report.slide("time", 0)
    assert np.ptp(np.sign(np.diff(rows_of(report.picture())))) == 2  # the last one now between the others
    report.slide("time", 1)
    assert_same(report.picture(), whole)
    assert report.page.locator("#joints line").count() == 0
    report.slide("explode", 1)
    assert len(where(report.picture(), GREEN)) < 0.8 * len(where(whole, GREEN))  # all is still seen, so it is smaller
    assert report.page.locator("#joints line:not(.halo)").count() == 2


def test_playing_starts_from_noise_and_pauses(report):
    report.page.get_by_role("button", name="Play").click()
    playwright.expect(report.page.locator("#time")).not_to_have_value("1", timeout=PATIENCE)
    report.press(" ")
    assert report.page.locator("#play").get_attribute("aria-label") == "Play"
    paused = report.page.locator("#time").input_value()
    report.picture()
    assert report.page.locator("#time").input_value() == paused


def test_an_alternative_has_its_own_places_confidence_and_leftovers(report):
    first = report.picture()
    report.page.locator("input[name=alternative]").nth(1).check()
    second = report.picture()
    (blue, _, green), (now_blue, now_green) = rows_of(first), [np.median(where(second, c)[:, 0]) for c in (BLUE, GREEN)]
    assert np.sign(blue - green) == -np.sign(now_blue - now_green)
    assert len(where(second, ORANGE)) == 0
    assert report.page.locator(".row.piece .value").all_inner_texts() == ["55\u00a0%", "not placed", "0\u00a0%"]
    assert report.page.locator("#time").is_disabled()
    dark_and_grey = (np.ptp(second, axis=2) < 25) & (second.max(axis=2) < 255 * FOREIGN[1].max())
    assert (
        dark_and_grey.sum() > 500 > ((np.ptp(first, axis=2) < 25) & (first.max(axis=2) < 255 * FOREIGN[1].max())).sum()
    )


def test_a_click_picks_the_piece_under_it(report):
    row, across = np.median(where(report.picture(), ORANGE), axis=0)
    report.page.locator("#canvas").click(position={"x": across, "y": row})
    card = report.page.locator("#picked")
    assert card.locator("h2").inner_text() == "blob 1"
    assert "100\u00a0%" in card.inner_text()
    assert "blob 0 (90\u00a0%), blob 2 (10\u00a0%)" in card.inner_text()
    report.press("n")
    assert card.locator("h2").inner_text() == "blob 2"
    report.press("Escape")
    assert card.is_hidden()


def test_colours_tell_the_confidence(report):
    report.page.get_by_text("By confidence").click()
    picture = report.picture()
    low, high = confidence_colors(CONFIDENCE[:2])
    assert len(where(picture, low)) > 500
    assert len(where(picture, high)) > 500
    assert len(where(picture, GREEN)) == 0
    assert "Confidence" in report.page.locator("#legend").inner_text()


def test_keys_turn_move_and_zoom(report):
    start = report.picture()
    report.press("ArrowRight", "ArrowRight")
    assert np.abs(report.picture() - start).mean() > 1
    report.press("0", "+")
    assert len(where(report.picture(), ORANGE)) > 1.3 * len(where(start, ORANGE))
    report.press("0", "Shift+ArrowDown")
    assert rows_of(report.picture())[1] == pytest.approx(rows_of(start)[1] + 30, abs=3)
    report.press("0")
    assert_same(report.picture(), start)


def test_the_mouse_turns_moves_and_zooms(report):
    start, mouse = report.picture(), report.page.mouse
    box = report.page.locator("#canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for button, (dx, dy) in (("left", (80, 0)), ("right", (0, 40))):
        report.press("0")
        mouse.move(x, y)
        mouse.down(button=button)
        mouse.move(x + dx, y + dy, steps=2)
        mouse.up(button=button)
        moved = report.picture()
        assert np.abs(moved - start).mean() > 1
    assert rows_of(moved)[1] == pytest.approx(rows_of(start)[1] + 40, abs=3)
    assert report.page.locator("#picked").is_hidden()  # a drag is no click
    report.press("0")
    mouse.wheel(0, -300)
    assert len(where(report.picture(), ORANGE)) > 1.3 * len(where(start, ORANGE))


def test_two_fingers_zoom(report):
    start = report.picture()
    box = report.page.locator("#canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    hand = report.context.new_cdp_session(report.page)
    for kind, reach in (("touchStart", 40), ("touchMove", 50), ("touchMove", 70)):
        points = [{"x": x - reach, "y": y, "id": 0}, {"x": x + reach, "y": y, "id": 1}]
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert len(where(report.picture(), ORANGE)) > 1.3 * len(where(start, ORANGE))


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (2000, "dark")])
def test_it_fits_windows_of_any_width_in_both_themes(show, width, scheme):
    scene = blobs()
    report = show(replace(scene, command="a" * 300, title="b" * 200), width, color_scheme=scheme)
    picture = report.picture()
    assert report.page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(where(picture, ORANGE)) > 500
    assert (picture[5, 5].mean() > 128) == (scheme == "light")


def box_of(side: float, name: str) -> ReportPiece:
    """A closed cube around the origin, as a mesh."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * side / 2
    sides = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = np.array([[a, b, c] for a, b, c, _ in sides] + [[a, c, d] for a, _, c, d in sides])
    return ReportPiece(name, corners, faces=faces)


def test_meshes_are_drawn_as_surfaces(show):
    pieces = [box_of(1, "box"), ReportPiece("cloud", lumpy_cloud(1, 160)[0] + [2, -0.5, -0.5])]
    report = show(Report("A box", pieces, [alternative_of(placed(np.zeros((2, 3))))]))
    picture = report.picture()
    box = where(picture, BLUE)
    assert len(box) > 500
    lights = {int(value) for value in picture[box[:, 0], box[:, 1], 2].round(-1)}
    assert len(lights) > 1  # its sides stand in different light
    assert report.events == [("request", report.address)]


def test_the_front_wall_of_a_mesh_hides_what_is_behind_it(show):
    """A box in a box: only the outer one is seen, in the middle too, and a click there picks it."""
    scene = Report("Boxes", [box_of(1, "inner"), box_of(2, "outer")], [alternative_of(placed(np.zeros((2, 3))))])
    report = show(scene)
    picture = report.picture()
    row, column = middle = [side // 2 for side in picture.shape[:2]]
    assert len(where(picture, BLUE)) == 0
    assert np.abs(where(picture, ORANGE) - middle).max(axis=1).min() == 0
    report.page.locator("#canvas").click(position={"x": column, "y": row})
    assert report.page.locator("#picked h2").inner_text() == "outer"
    report.page.get_by_label("Show outer").uncheck()
    report.page.locator("#canvas").click(position={"x": column, "y": row})
    assert report.page.locator("#picked h2").inner_text() == "inner"


PURPLE, OLIVE = np.array([150, 40, 220]) / 255, np.array([120, 160, 20]) / 255


def test_own_colours_are_those_of_pictures_vertices_and_points(show):
    """A picture on one half of a box, colours of its points on the other, and a coloured cloud beside it."""
    box, blob = box_of(1, "box"), lumpy_cloud(1, 160)[0] + [2, -0.5, -0.5]
    picture = Image.new("RGB", (8, 8), tuple(np.uint8(255 * PURPLE).tolist()))
    olive = np.tile(np.uint8(255 * OLIVE), (8, 1))
    own = OwnColors(box.points, olive, None, box.faces, np.full((8, 2), 0.5), (Skin(6, picture, (8, 8)), Skin(6, None)))
    paint = OwnColors(blob, np.tile(np.uint8(255 * ORANGE), (160, 1)))
    pieces = [replace(box, own=own), ReportPiece("cloud", blob, own=paint)]
    report = show(Report("Painted", pieces, [alternative_of(placed(np.zeros((2, 3))))]))
    assert len(where(report.picture(), BLUE)) > 500
    report.page.get_by_text("Own colours").click()
    report.page.wait_for_timeout(300)  # until the picture is decoded
    picture = report.picture()
    for color in (PURPLE, OLIVE, ORANGE):
        assert len(where(picture, color)) > 500
    assert len(where(picture, BLUE)) == 0
    report.page.get_by_text("By piece").click()
    assert len(where(report.picture(), PURPLE)) == 0
    assert report.events == [("request", report.address)]


def with_seams() -> Report:
    """The blobs with a seam on the middle one: narrow in the first alternative, wide in the second."""
    scene = blobs()
    points, normals = lumpy_cloud(1, 160)
    gaps = np.stack([np.zeros(160), np.ones(160)])
    nothing = Paint(np.empty((0, 3)), None, 0.1, np.empty((2, 0)))
    joints = ((Joint(0, 1, 0.9, 0.0123, 1234, 0.5), Joint(1, 2, 0.1, None, 0, 0.0)), ())
    whole = replace(scene.alternatives[1], placed=np.ones(3, dtype=bool))
    seams = Seams(joints, (nothing, Paint(points, normals, 0.2, gaps), nothing), 0.5)
    return replace(scene, alternatives=[scene.alternatives[0], whole], seams=seams)


def test_seams_have_the_colour_of_their_gap_in_every_alternative(show):
    report = show(with_seams())
    report.page.get_by_text("Gaps at seams").click()
    narrow, wide = confidence_colors(np.array([1.0, 0.0]))
    first = report.picture()
    report.page.locator("input[name=alternative]").nth(1).check()
    second = report.picture()
    assert len(where(first, narrow)) > 900 > 300 > len(where(first, wide))  # the legend has both
    assert len(where(second, wide)) > 900 > 300 > len(where(second, narrow))
    legend = report.page.locator("#legend").inner_text()
    assert "unit of the files" in legend
    assert "0.25" in legend
    assert "0.5 or more" in legend


def test_a_click_on_a_joint_selects_its_two_pieces_and_tells_about_it(show):
    report = show(with_seams())
    before = report.picture()
    row = report.page.locator("#joint-list .joint").first
    assert row.inner_text().split("\n") == ["blob 0 – blob 1", "90\u00a0%", "0.012"]
    row.locator("button").click()
    card = report.page.locator("#picked")
    assert card.locator("h2").inner_text() == "blob 0 – blob 1"
    assert "1,234 points, area 0.5" in card.inner_text()
    assert report.page.locator(".row.piece.picked").count() == 2
    picked = report.picture()
    assert len(where(picked, GREEN)) < 0.5 * len(where(before, GREEN)), "the third is pale"
    assert len(where(picked, BLUE)) > 0.5 * len(where(before, BLUE))
    card.get_by_role("button", name="Show only these two").click()
    assert not report.page.get_by_label("Show blob 2").is_checked()
    row.locator("button").click()
    assert card.is_hidden()
    cells = report.page.locator("#numbers table").nth(1).locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["blob 0", "blob 1", "90\u00a0%", "0.012", "1,234", "0.5"]


def test_the_picture_is_saved_as_it_is_seen(report):
    seen = report.picture()
    with report.page.expect_download() as download:
        report.page.get_by_role("button", name="Save the picture").click()
    assert download.value.suggested_filename == "Three blobs.png"
    saved = np.asarray(Image.open(download.value.path()).convert("RGB"), dtype=np.float64)
    np.testing.assert_allclose(saved.shape, seen.shape, atol=1)
    inner = slice(8, -8)  # without the ring of the focus, which is blue
    for color in (BLUE, ORANGE, GREEN):
        counts = [len(where(picture[inner, inner], color)) for picture in (saved, seen)]
        assert counts[0] == pytest.approx(counts[1], rel=0.05)


def test_without_a_graphics_context_the_numbers_remain(show):
    report = show(blobs(), before="HTMLCanvasElement.prototype.getContext = () => null")
    report.page.wait_for_selector(STILL)
    assert "WebGL 2 is switched off or missing" in report.page.locator("#message").inner_text()
    assert report.page.locator("#numbers tbody tr").count() == 3 + 2 + 2
    report.page.get_by_label("Show blob 1").uncheck()
    assert [event for event in report.events if event[0] == "error"] == []


def test_the_command_and_the_pose_can_be_copied(report):
    report.page.locator("#numbers .copy").click()
    report.page.locator("#numbers").get_by_role("button", name="Copied").wait_for()
    assert report.page.evaluate("navigator.clipboard.readText()") == "eda assemble 'a b'"
    report.press("n")
    report.page.get_by_role("button", name="Copy pose").click()
    report.page.locator("#picked").get_by_role("button", name="Copied").wait_for()
    copied = report.page.evaluate("navigator.clipboard.readText()")
    np.testing.assert_array_equal(np.loadtxt(copied.splitlines()), placed(PLACES)[0])
