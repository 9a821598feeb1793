"""Builds the compiled module. Everything else about the package is in pyproject.toml.

The module speaks plain C and is loaded with ctypes, so one build serves every version of torch. Where there is no
C++ compiler the install still succeeds, and the package says once that it runs on its slow reference path.
"""

from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = "src/eda/native"
SOURCES = ("dispatch", "kernels_baseline", "kernels_avx2", "kernels_avx512", "farthest_points")
HEADERS = (
    "kernels.h", "parallel.h",
    "kernels.inc", "registers.inc", "attention.inc", "pointwise.inc", "nearest.inc",
)  # fmt: skip


class BuildNative(build_ext):
    """Compiles the files side by side: the instruction sets take most of the time."""

    def build_extension(self, ext):
        """As in setuptools, but the sources become objects in parallel first."""
        options = {
            "output_dir": self.build_temp,
            "extra_postargs": ext.extra_compile_args,
            "depends": ext.depends,
        }
        with ThreadPoolExecutor() as pool:
            objects = list(pool.map(lambda source: self.compiler.compile([source], **options), ext.sources))
        self.compiler.link_shared_object(
            [path for each in objects for path in each],
            self.get_ext_fullpath(ext.name),
            extra_postargs=ext.extra_link_args,
            target_lang="c++",
        )

    def get_export_symbols(self, ext):
        """Nothing of Python's: the functions are exported by the sources themselves."""
        return []


setup(
    cmdclass={"build_ext": BuildNative},
    ext_modules=[
        Extension(
            "eda.native._core",
            sources=[f"{NATIVE}/{name}.cpp" for name in SOURCES],
            depends=[f"{NATIVE}/{name}" for name in HEADERS],
            # -Wno-psabi: vectors are never passed between functions that are not inlined.
            extra_compile_args=[
                "-std=c++17", "-O3", "-g0", "-pthread", "-fvisibility=hidden",
                "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi",
            ],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        )
    ],
)  # fmt: skip
