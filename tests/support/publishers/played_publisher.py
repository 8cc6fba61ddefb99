"""A publisher of the tests: it writes the keys of what is published to a file, as a plug-in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from landfall.errors import Reason, Retry, Stalled
from landfall.publish import Published, Publisher, Stretch
from landfall.publish.context import Context
from landfall.publish.following import Follower
from landfall.publish.steps import StepPublisher

PLAYED = "tests.support.publishers.played_publisher:ToFile"


@dataclass
class ToFile:
    """Appends the key of each object to ``path``; fails as the file ``<path>.fails`` says."""

    path: Path

    @classmethod
    def of(cls, options: Mapping[str, object], context: Context) -> Publisher:
        if options.keys() != {"path"}:
            raise ValueError("option path: needed, and nothing else")
        step = cls(Path(str(options["path"])))
        return StepPublisher(context, context.cursor(str(step.path)), step)

    def take(self, stretch: Stretch) -> int:
        fails = self.path.with_suffix(".fails")
        match fails.read_text() if fails.exists() else "":
            case "retry":
                raise Retry("the file is away")
            case "stalled":
                raise Stalled(Reason.DESTINATION_CONFLICT, "the file is somebody else's")
            case "bug":
                raise ZeroDivisionError("of a library")
        with self.path.open("a") as file:
            file.writelines(f"{each.landed.upload.key}\n" for each in stretch.objects)
        return len(stretch.objects)

    def preview(self, stretch: Stretch) -> Iterator[str]:
        yield from (f"write {each.landed.upload.key}" for each in stretch.objects)


@dataclass
class Scripted:
    """A publisher that does what the test says, pass by pass; what is wrong is raised."""

    script: list[Published | Exception] = field(default_factory=list)
    at: int = -1

    def publish(self, follower: Follower) -> Published:
        del follower
        result = self.script.pop(0)
        if isinstance(result, Exception):
            raise result
        self.at = result.through
        return result

    def position(self) -> int:
        return self.at

    def preview(self, follower: Follower) -> Iterator[str]:
        raise NotImplementedError(follower)

    def reset(self, follower: Follower) -> None:
        raise NotImplementedError(follower)
