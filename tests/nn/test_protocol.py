"""Networks from outside have a name each, and are made again from it and their settings."""

import pytest
import torch
from support.custom_networks import CentroidNetwork, EncodingCentroids, SizingCentroids
from torch import nn

from eda import InputError, register_network
from eda.nn import EdaNetwork
from eda.nn.protocol import NETWORKS, AuxiliaryLoss, CustomNetwork, EncodingNetwork

pytestmark = pytest.mark.usefixtures("registries")


def test_a_registered_network_is_made_from_its_name_and_settings():
    register_network("centroids", CentroidNetwork)
    made = CustomNetwork("centroids", {"width": 7}).make()
    assert type(made) is CentroidNetwork
    assert made.layers[0].out_features == 7
    assert CustomNetwork.of(made) == CustomNetwork("centroids", {"width": 7})


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_network_needs_a_name(name):
    with pytest.raises(InputError, match="a network needs a name"):
        register_network(name, CentroidNetwork)


def test_a_name_that_is_taken_is_refused_and_keeps_its_network():
    register_network("centroids", CentroidNetwork)
    with pytest.raises(InputError, match="the network 'centroids' exists already"):
        register_network("centroids", EncodingCentroids)
    assert NETWORKS["centroids"] is CentroidNetwork


def test_an_unknown_name_says_how_to_register_it():
    register_network("centroids", CentroidNetwork)
    with pytest.raises(InputError, match=r"network 'mine' is not known here \(there are centroids\).*register_network"):
        CustomNetwork("mine").make()


def test_settings_that_do_not_fit_are_an_input_error():
    register_network("centroids", CentroidNetwork)
    with pytest.raises(InputError, match=r"'centroids' cannot be made with .*depth"):
        CustomNetwork("centroids", {"depth": 2}).make()


@pytest.mark.parametrize(("name", "settings"), [(3, {}), ("x", [1]), (None, {})])
def test_a_config_of_wrong_types_is_an_input_error(name, settings):
    with pytest.raises(InputError, match="needs a name and a table of settings"):
        CustomNetwork(name, settings)


def test_a_network_whose_config_does_not_make_it_again_is_found_out():
    register_network("centroids", CentroidNetwork)
    network = CentroidNetwork(5)
    CustomNetwork.of(network).check_remakes(network)
    network.config = {"width": 6}
    with pytest.raises(InputError, match="has other weights than this network"):
        CustomNetwork.of(network).check_remakes(network)


def test_a_network_that_is_not_registered_has_no_name():
    assert CustomNetwork.of(nn.Linear(2, 2)) == CustomNetwork("", {})


def test_hooks_are_recognised_by_their_methods():
    assert isinstance(EncodingCentroids(), EncodingNetwork)
    assert isinstance(SizingCentroids(), AuxiliaryLoss)
    for network in (CentroidNetwork(), torch.nn.Identity()):
        assert not isinstance(network, EncodingNetwork)
        assert not isinstance(network, AuxiliaryLoss)
    assert not issubclass(EdaNetwork, AuxiliaryLoss)
